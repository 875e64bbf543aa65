"""Names the operators of a query from its physical plan: one operator per stage, cut at the exchanges."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NODE = re.compile(r"^[\s:|+*()\d-]*?([A-Z][A-Za-z0-9]*)")
_EXCHANGES = ("Exchange", "ShuffleExchange", "BroadcastExchange")
_TRIVIAL = {
    "Project",
    "WholeStageCodegen",
    "InputAdapter",
    "CollectMetrics",
    "Filter",
    "ColumnarToRow",
    "AdaptiveSparkPlan",
    "Sort",
    "SerializeFromObject",
    "DeserializeToObject",
    "WriteToDataSourceV2",
    "ResultQueryStage",
    "ShuffleQueryStage",
    "AQEShuffleRead",
}
_TELLING = ("Scan", "BatchScan", "MicroBatchScan", "Join", "Aggregate", "Map", "Python", "Generate", "Dedup", "Window")


@dataclass(slots=True)
class _Branch:
    depth: int
    nodes: list[str] = field(default_factory=list)


def operators_of_plan(plan: str) -> tuple[str, ...]:
    """Operator names in the order in which Spark numbers the stages: children before parents, left before right.

    >>> operators_of_plan('''
    ... WriteToDataSourceV2 MicroBatchWrite
    ... +- *(2) HashAggregate(keys=[word])
    ...    +- StateStoreSave [word], state info
    ...       +- Exchange hashpartitioning(word, 4)
    ...          +- *(1) HashAggregate(keys=[word])
    ...             +- Generate explode(split(value))
    ...                +- MicroBatchScan[value] tidegate
    ... ''')
    ('scan', 'aggregate')
    """
    stages: list[str] = []
    branches = [_Branch(-1)]
    for line in plan.splitlines():
        found = _NODE.match(line)
        if found is None:
            continue
        depth, node = found.start(1), found.group(1)
        while depth <= branches[-1].depth:
            stages.append(_name(branches.pop().nodes))
        if node.startswith(_EXCHANGES) and not node.startswith("BroadcastExchange"):
            branches.append(_Branch(depth))
        else:
            branches[-1].nodes.append(node)
    while branches:
        stages.append(_name(branches.pop().nodes))
    return _distinct(stages)


def _name(nodes: list[str]) -> str:
    """The most descriptive node of a stage: a source, else a stateful step, else any other."""
    for kind in _TELLING:
        for node in nodes:
            if kind in node:
                return _plain(node, kind)
    rest = [node for node in nodes if node not in _TRIVIAL]
    return rest[-1].lower() if rest else "stage"


def _plain(node: str, kind: str) -> str:
    if kind in {"Scan", "BatchScan", "MicroBatchScan"}:
        return "scan"
    if kind == "Aggregate":
        return "aggregate"
    return re.sub(r"(?<!^)(?=[A-Z])", "-", node.removesuffix("Exec")).lower()


def _distinct(names: list[str]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return tuple(distinct)
