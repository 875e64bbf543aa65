"""`tidegate reproduce`, split by where experiments run."""
