"""Which sessions of an unchanged script Tidegate attaches to. The sessions here only look like Spark's."""

from __future__ import annotations

import threading
from typing import Any

from tidegate.adapters.spark.unchanged import Sessions

FakeSession: Any = type("FakeSession", (), {"_jsparkSession": object()})  # as a classic session has


class FakeGate:
    running = True


def test_a_session_that_control_makes_while_it_begins_gets_no_control_of_its_own() -> None:
    attached: list[Any] = []

    def attach(session: Any) -> Any:
        attached.append(session)
        control = threading.Thread(target=sessions.take, args=(FakeSession(),))
        control.start()
        control.join()
        return FakeGate()

    sessions = Sessions(attach)
    first = FakeSession()
    sessions.take(first)
    sessions.take(FakeSession())
    assert attached == [first]


def test_a_session_after_control_has_ended_is_attached_to() -> None:
    gates: list[Any] = []

    def attach(_: Any) -> Any:
        gates.append(FakeGate())
        return gates[-1]

    sessions = Sessions(attach)
    sessions.take(FakeSession())
    gates[0].running = False
    sessions.take(FakeSession())
    assert len(gates) == 2
