"""The laboratory's commands. `tidegate` finds them by their entry points."""
