"""Looking at journals: panels of figures, a page, metrics and an API over them, and one-file reports."""
