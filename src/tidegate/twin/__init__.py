"""A simulated twin of a recorded run: calibrated from its journal, replayed under another policy."""
