"""Instance scheduling compared with the default assignment that it replaces.

    python benchmarks/instances.py [--hosts N] [--applications N]

A cluster runs WordCounts (source → split → count); a third of them get more tasks, and a host is lost and replaced.
Prints for both, and as ratios ours ÷ default: the CPU time to assign (medians), the instances that move to another
slot, the pairs of a task and its feeder of the same number on different hosts, and the fullest slot.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from statistics import median

from tidegate.plan.operators.instances import Wanted, deal_in_turn, schedule_instances
from tidegate.plan.operators.migration import Assignment, Instance, Place, migrate

_SLOTS = 4
_ROUNDS = 1000
_OPERATORS = ("source", "split", "count")


def main() -> None:
    """Build the cluster, change it, and run both schedulers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=25)
    parser.add_argument("--applications", type=int, default=12)
    asked = parser.parse_args()
    drawn = random.Random(7)
    places = _places(range(asked.hosts))
    before = [
        Wanted(f"t{number}", {name: drawn.randint(2, 10) for name in _OPERATORS})
        for number in range(asked.applications)
    ]
    after = [_grown(application, level) for level, application in enumerate(before)]
    left = _places([*range(1, asked.hosts), asked.hosts])
    default_now = deal_in_turn(before, places)
    own_now = schedule_instances(before, places, {})
    times = _times_s(lambda: deal_in_turn(after, left), lambda: schedule_instances(after, left, own_now))
    default, own = deal_in_turn(after, left), schedule_instances(after, left, own_now)
    report = {
        "instances": len(own),
        "slots": len(left),
        "time": {
            "default_ms": median(times[0]) * 1e3,
            "ours_ms": median(times[1]) * 1e3,
            "ratio": median(own_s / default_s for default_s, own_s in zip(*times, strict=True)),
        },
        "moved": _compare(_moved(default_now, default), _moved(own_now, own)),
        "feeders_elsewhere": _compare(_apart(default), _apart(own)),
        "fullest_slot": {"default": _fullest(default), "ours": _fullest(own)},
    }
    print(json.dumps(report, indent=2))


def _places(hosts: range | list[int]) -> list[Place]:
    return [Place(f"s{host:03}", str(6700 + slot)) for host in hosts for slot in range(_SLOTS)]


def _grown(application: Wanted, number: int) -> Wanted:
    if number % 3:
        return application
    tasks = {name: count + (4 if name == "split" else 2) for name, count in application.parallelism.items()}
    return Wanted(application.application, tasks, level=number + 1)


def _times_s(*assign: Callable[[], Assignment]) -> list[list[float]]:
    """Return the times of each. They take turns, so that changes in CPU speed affect all of them."""
    taken_s: list[list[float]] = [[] for _ in assign]
    for _ in range(_ROUNDS):
        for one, times in zip(assign, taken_s, strict=True):
            began_s = time.process_time()
            one()
            times.append(time.process_time() - began_s)
    return taken_s


def _moved(before: Assignment, after: Assignment) -> int:
    return migrate(before, after).counts["move"]


def _apart(assignment: Assignment) -> int:
    feeds = dict(zip(_OPERATORS[1:], _OPERATORS, strict=False))
    pairs = (
        (place, assignment.get(Instance(instance.application, feeds[instance.operator], instance.task)))
        for instance, place in assignment.items()
        if instance.operator in feeds
    )
    return sum(feeder is not None and feeder.host != place.host for place, feeder in pairs)


def _fullest(assignment: Assignment) -> int:
    return max(Counter(assignment.values()).values())


def _compare(default: int, own: int) -> dict[str, float]:
    return {"default": default, "ours": own, "ratio": own / default if default else 1.0}


if __name__ == "__main__":
    main()
