"""Replays a recording with nothing but numpy, pydantic and pyyaml, in a process of its own.

Standard input holds the policy, the series to judge and the recorded steps, a JSON document each; standard output gets
the decisions, the scores and the forecasts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

BLOCKED = {
    "numba", "scipy", "sklearn", "river", "matplotlib", "pandas", "pyarrow", "psutil", "datasketches", "statsmodels",
}  # fmt: skip


class Refuse(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{fullname} is not installed here", name=fullname)
        return None


def replay() -> dict[str, object]:
    from tidegate.accelerate import COMPILED
    from tidegate.control.controller import Controller
    from tidegate.domain import Observation, Receipt
    from tidegate.domain.codec import from_json, to_json
    from tidegate.domain.policy import Policy
    from tidegate.evaluate.abnormality import SurpriseDetector, WindowedGaussian
    from tidegate.evaluate.forecast import SelectingBank

    controller = Controller(from_json(Policy, sys.stdin.readline()))
    series: list[float] = json.loads(sys.stdin.readline())
    decisions = []
    for line in sys.stdin:
        observation, receipt = json.loads(line)
        decision = controller.step(from_json(Observation, observation))
        decisions.append(to_json(decision))
        if receipt is not None:
            controller.learn(decision, from_json(Receipt, receipt))
    surprise, gaussian, bank = SurpriseDetector(history_rows=200), WindowedGaussian(window_rows=50), SelectingBank(1, 4)
    scores, paths = [], []
    for row, value in enumerate(series):
        scores.append((surprise.score(value, 300.0 * row), gaussian.score(value)))
        bank.observe([value])
        paths.append(bank.forecast().upper[0].tolist())
    return {"compiled": COMPILED, "decisions": decisions, "scores": scores, "paths": paths}


if __name__ == "__main__":
    sys.meta_path.insert(0, Refuse())
    import tidegate.adapters.spark.attach  # noqa: F401

    print(json.dumps(replay()))
