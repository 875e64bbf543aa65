"""Without the extras the live path imports, and a recording replays to the same decisions to the last digit."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.core import bare_replay
from tests.core.worlds import simulated
from tidegate.domain.codec import to_json
from tidegate.domain.policy import Policy
from tidegate.load import Burst, Poisson

SCRIPT = Path(bare_replay.__file__)


def recording() -> str:
    policy = Policy.model_validate({"objective": {"latency_s": 8}, "executors": {"min": 1, "max": 6}})
    load = Poisson(of=Burst(base=400, peak=1200, start_s=40, duration_s=60), seed=2)
    _, entries = simulated(load, policy, until_s=200)
    rng = np.random.default_rng(3)
    series = 100 + 20 * np.sin(np.arange(700) / 7) + rng.normal(0, 3, 700)
    series[500:510] += 200
    steps = [
        json.dumps([to_json(entry.observation), None if entry.receipt is None else to_json(entry.receipt)])
        for entry in entries
    ]
    return "\n".join([to_json(policy), json.dumps(series.tolist()), *steps])


@pytest.mark.slow
def test_a_recording_replays_alike_without_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = recording()
    bare = subprocess.run(
        [sys.executable, str(SCRIPT)], input=recorded, capture_output=True, text=True, timeout=600, check=False
    )
    assert bare.returncode == 0, bare.stderr
    monkeypatch.setattr(sys, "stdin", io.StringIO(recorded))
    full = json.loads(json.dumps(bare_replay.replay()))
    found = json.loads(bare.stdout)
    assert found["compiled"] is False
    assert full["compiled"] is True
    assert any('"target":' in decision for decision in full["decisions"]), "something was decided"
    assert max(score for score, _ in full["scores"]) > 0.5, "something was abnormal"
    for part in ("decisions", "scores", "paths"):
        assert found[part] == full[part], f"{part} differ"
