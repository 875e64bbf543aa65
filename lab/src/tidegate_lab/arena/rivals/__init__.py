"""The rivals, one file each: how products and papers choose the size of a pool, reimplemented from their rules.

Each has its published defaults and a small grid of other settings. "Best" is the setting of the grid that did best on a
load, chosen afterwards. It could not have been known in advance, so this favours the rival.
"""
