"""The constants of Nexmark's queries, for Spark and for the plain check alike."""

from __future__ import annotations

EUROS_PER_DOLLAR = 0.908
CHOSEN = 123
"""q2 selects auctions whose number this divides."""
CATEGORY = 10
STATES = ("OR", "ID", "CA")
WINDOW_MS, SLIDE_MS, GAP_MS = 10_000, 2_000, 10_000
