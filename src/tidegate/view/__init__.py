"""Views of journals: panels, a page, metrics, an API, and one-file reports."""
