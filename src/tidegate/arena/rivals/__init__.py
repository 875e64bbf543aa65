"""The rivals, one file each: how products and papers decide about the size of a pool, written anew from their rules.

Each has its published defaults, and a small grid of other settings. "Best" means the setting of the grid that did best
on a load, chosen afterwards: nobody could have known it, so it is in the rival's favour.
"""
