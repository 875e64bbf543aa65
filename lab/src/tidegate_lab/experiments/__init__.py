"""One file per demonstration, table or figure. Each follows the section of the paper that it reproduces."""
