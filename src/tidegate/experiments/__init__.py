"""One file per demonstration, table or figure; each reads like the section it reproduces."""
