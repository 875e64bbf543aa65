"""Groups collinear metrics, so that one of them can represent the group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from tidegate.history.metrictable import Floats

SAME = 0.98  # two metrics with at least this |r| count as one


@dataclass(frozen=True, slots=True)
class Group:
    """Metrics with a pairwise |r| of at least 0.98, and their representative."""

    representative: str
    members: tuple[str, ...]


def collinear_groups(names: tuple[str, ...], r: Floats, same: float = SAME) -> tuple[Group, ...]:
    """Complete linkage on 1 − |r|: every member is that close to every other. Groups of one are included.

    The representative has the largest mean |r| within its group; ties go to the shortest name.

    >>> r = np.array([[1.0, 0.99, 0.1], [0.99, 1.0, 0.2], [0.1, 0.2, 1.0]])
    >>> [group.members for group in collinear_groups(("rows", "rows_in", "gc_s"), r)]
    [('rows', 'rows_in'), ('gc_s',)]
    """
    if not names:
        return ()
    closeness = np.nan_to_num(np.abs(r), nan=0.0)
    labels = np.ones(1, dtype=np.int32)
    if len(names) > 1:
        distance = np.clip(1.0 - (closeness + closeness.T) / 2.0, 0.0, 1.0)
        np.fill_diagonal(distance, 0.0)
        labels = fcluster(linkage(squareform(distance, checks=False), "complete"), 1.0 - same, criterion="distance")
    groups = []
    for label in dict.fromkeys(labels.tolist()):
        places = np.flatnonzero(labels == label)
        inside = closeness[np.ix_(places, places)].mean(axis=1).round(6)
        best = min(range(len(places)), key=lambda at: (-inside[at], len(names[places[at]]), names[places[at]]))
        groups.append(Group(names[places[best]], tuple(names[place] for place in places)))
    return tuple(groups)
