"""The constants of Nexmark's queries, shared by Spark and the plain reference."""

from __future__ import annotations

EUROS_PER_DOLLAR = 0.908
CHOSEN = 123
"""q2 selects auctions whose number is a multiple of this."""
CATEGORY = 10
STATES = ("OR", "ID", "CA")
WINDOW_MS, SLIDE_MS, GAP_MS = 10_000, 2_000, 10_000
