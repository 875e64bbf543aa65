"""What managers promise: tokens bound changes, budgets bound hosts, answers come once, silence is safe."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tidegate.managers import (
    ApplicationManager,
    ApplicationSettings,
    ApplicationState,
    ApplicationView,
    Budget,
    HostView,
    InfrastructureManager,
    InfrastructureState,
    Numbering,
    OperatorManager,
    OperatorSettings,
    OperatorState,
    RegionManager,
    RegionSettings,
    RegionState,
    RegionView,
    Seat,
    TokenRule,
)
from tidegate.managers.messages import (
    Denial,
    HaveHosts,
    HostGrant,
    HostRequest,
    Message,
    MoveRequest,
    OperatorReport,
    RegionReport,
    Rescale,
    ScaleGrant,
    ScaleRequest,
    Standing,
)
from tidegate.managers.policies import OperatorLimits, OperatorView, Wish

LIMITS = OperatorLimits(least=2, most=8, objective_s=1.0, full_rate_rows_per_s=800.0)
CALM, LATE = ApplicationView(0.5, 4.0), ApplicationView(9.0, 4.0)
TOKENS = ApplicationSettings(
    operator=TokenRule(3, 600), application=TokenRule(5, 120), rescue=TokenRule(2, 300), fresh_s=90
)


class Flapper:
    """A policy that wants the opposite of the last time, every time."""

    def __init__(self) -> None:
        self.up = False

    def watch(self, view: OperatorView) -> None: ...

    def propose(self, view: OperatorView) -> Wish:
        self.up = not self.up
        change = 1 if self.up and view.replicas < LIMITS.most else -1
        return Wish(change if LIMITS.least <= view.replicas + change else 1, 5.0, "flapping")


def operator(policy: object = None, name: str = "app.op", **kept: object) -> OperatorManager:
    state = OperatorState(Numbering(name), 4, 4, 0.0)
    return OperatorManager(
        name,
        LIMITS,
        policy or Flapper(),
        state,
        "app",
        "region",
        OperatorSettings(**kept),  # type: ignore[arg-type]
    )


def application(*names: str, rule: ApplicationSettings = TOKENS) -> ApplicationManager:
    return ApplicationManager("app", ApplicationState.fresh("app", dict.fromkeys(names, "region"), rule), rule)


def ask(name: str, number: int, time_s: float, **changes: object) -> ScaleRequest:
    fields = {"replicas": 4, "change": 1, "score": 1.0, "reason": "busy"} | changes
    return ScaleRequest(id=f"{name}#{number}", sender=name, to="app", time_s=time_s, operator=name, **fields)  # type: ignore[arg-type]


def grants(messages: list[Message]) -> list[str]:
    return [m.operator for m in messages if isinstance(m, ScaleGrant)]


@settings(max_examples=25)
@given(
    late=st.lists(st.booleans(), min_size=30, max_size=90),
    away=st.tuples(st.integers(0, 60), st.integers(0, 25)),
)
def test_a_flapping_operator_is_bounded_by_its_tokens(late: list[bool], away: tuple[int, int]) -> None:
    """B + r·T, the rescue lane's B + r·T, and what it may do alone; whatever the latency, however long the silence."""
    manager, centre = operator(), application("app.op")
    rules, changes, replicas, mail = manager._settings, 0, 4, list[Message]()
    for step, violated in enumerate(late):
        now_s = 60.0 * step
        view = OperatorView(replicas, 100.0 * replicas, 0.9, 5.0 if violated else 0.1)
        out = manager.step(view, mail, now_s)
        gone = away[0] <= step < away[0] + away[1]
        mail = [] if gone else centre.step(LATE if violated else CALM, [m for m in out if m.to == "app"], now_s)
        for order in (m for m in out if isinstance(m, Rescale)):
            changes += order.target != replicas
            replicas = order.target
            assert LIMITS.least <= replicas <= LIMITS.most
        bound = (
            TOKENS.operator.size
            + now_s / TOKENS.operator.refill_s
            + TOKENS.rescue.size
            + now_s / TOKENS.rescue.refill_s
            + manager.state.changes_alone
        )
        assert changes <= bound + 1e-9
        assert abs(replicas - manager.state.granted) <= rules.allowance


def test_the_best_requests_take_the_tokens() -> None:
    names = [f"app.{i}" for i in range(8)]
    centre = application(*names)
    out = centre.step(CALM, [ask(name, 1, 0, score=float(i)) for i, name in enumerate(names)], 0)
    assert grants(out) == [f"app.{i}" for i in (7, 6, 5, 4, 3)]
    assert {m.reason for m in out if isinstance(m, Denial)} == {"no tokens left"}


def test_a_rescue_passes_an_empty_bucket_but_not_for_ever() -> None:
    centre = application("app.op")
    granted = 0
    for i in range(40):
        granted += len(grants(centre.step(LATE, [ask("app.op", i + 1, float(i), urgent=True)], float(i))))
    assert granted == TOKENS.operator.size + TOKENS.rescue.size
    assert not grants(centre.step(CALM, [ask("app.op", 99, 40.0, urgent=True)], 40.0))


def test_a_rescue_that_the_application_does_not_see_is_no_rescue() -> None:
    centre = application("app.op", rule=ApplicationSettings(operator=TokenRule(1, 1e6), rescue=TokenRule(3, 60)))
    centre.step(CALM, [ask("app.op", 1, 0)], 0)
    assert not grants(centre.step(CALM, [ask("app.op", 2, 1, urgent=True)], 1))
    assert grants(centre.step(LATE, [ask("app.op", 3, 2, urgent=True)], 2))


def test_second_opportunity_only_rides_along() -> None:
    rule = ApplicationSettings(second_opportunity=True)
    alone = application("app.a", "app.b", rule=rule).step(CALM, [ask("app.a", 1, 0, only_if_free=True)], 0)
    assert not grants(alone)
    both = [ask("app.a", 1, 0, only_if_free=True, score=0.0), ask("app.b", 1, 0)]
    assert sorted(grants(application("app.a", "app.b", rule=rule).step(CALM, both, 0))) == ["app.a", "app.b"]


def test_a_request_is_answered_once_and_a_grant_works_once() -> None:
    centre = application("app.op")
    request = ask("app.op", 1, 0)
    first = centre.step(CALM, [request, request], 0)
    assert len(grants(first)) == 1
    assert not grants(centre.step(CALM, [request], 1))
    manager = operator()
    asked = next(m for m in manager.step(OperatorView(4, 400, 0.9, 0.1), [], 0) if isinstance(m, ScaleRequest))
    grant = ScaleGrant(
        id="app#1", sender="app", to="app.op", time_s=1, request_id=asked.id, operator="app.op", target=5, reason=""
    )
    orders = [m for m in manager.step(OperatorView(4, 400, 0.9, 0.1), [grant, grant], 30) if isinstance(m, Rescale)]
    assert [order.target for order in orders] == [5]
    again = manager.step(OperatorView(5, 400, 0.9, 0.1), [grant], 60)
    assert not [m for m in again if isinstance(m, Rescale)]


def test_stale_requests_are_refused() -> None:
    assert not grants(application("app.op").step(CALM, [ask("app.op", 1, 0)], 1000))


def test_after_a_silence_the_centre_adopts_what_is_there() -> None:
    manager, centre = operator(silence_s=100, cool_down_alone_s=0), application("app.op")
    manager.policy.propose = lambda view: Wish(1, 1.0, "up")  # type: ignore[method-assign]
    centre.step(
        CALM,
        [
            OperatorReport(
                id="app.op#1", sender="app.op", to="app", time_s=0, operator="app.op", replicas=4, changes_alone=0
            )
        ],
        0,
    )
    replicas = 4
    for now_s in range(120, 600, 30):
        for order in manager.step(OperatorView(replicas, 400, 0.9, 0.1), [], float(now_s)):
            assert isinstance(order, Rescale)
            replicas = order.target
    assert replicas == 6  # granted 4, allowance 2
    standing = [m for m in centre.step(CALM, [], 600) if isinstance(m, Standing)]
    report = [m for m in manager.step(OperatorView(6, 400, 0.9, 0.1), standing, 630) if isinstance(m, OperatorReport)]
    centre.step(CALM, [*report, *report], 660)
    record = centre.state.operators["app.op"]
    assert record.target == 6
    assert record.bucket.tokens <= TOKENS.operator.size - 2 + 60 / TOKENS.operator.refill_s + 1
    out = manager.step(OperatorView(6, 400, 0.9, 0.1), [m for m in centre.step(CALM, [], 720) if m.to == "app.op"], 720)
    assert not [m for m in out if isinstance(m, Rescale)]  # no jump
    assert manager.state.granted == 6


@settings(max_examples=25)
@given(data=st.data(), most=st.integers(4, 20), allowance=st.integers(0, 3))
def test_never_more_hosts_than_the_budget(data: st.DataObject, most: int, allowance: int) -> None:
    """Regions use everything they were ever promised; messages get lost, the centre forgets all."""
    budget = Budget(most, allowance=allowance)
    centre = InfrastructureManager("centre", InfrastructureState(Numbering("centre")), budget)
    hosts, heard, lease, sent = [1, 1, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0]
    for step in range(12):
        inbox: list[Message] = []
        for r in range(3):
            head = {"sender": f"r{r}", "to": "centre", "time_s": float(step)}
            if step and data.draw(st.booleans()):
                hosts[r] = data.draw(st.integers(0, lease[r]))  # a silence: all of its lease, or less
            if step == 0 or data.draw(st.booleans()):
                sent[r] += 1
                report = RegionReport(
                    **head, id=f"r{r}#{sent[r]}", region=f"r{r}", hosts=hosts[r], heard=heard[r], most=lease[r]
                )
                sent[r] += 1
                change = data.draw(st.integers(1, 4))
                inbox += [
                    report,
                    HostRequest(
                        **head,
                        id=f"r{r}#{sent[r]}",
                        region=f"r{r}",
                        hosts=hosts[r],
                        change=change,
                        unmet_slots=1.0,
                        reason="",
                    ),
                ]
        for message in centre.step(inbox, float(step)):
            r = int(message.to[1:])
            if isinstance(message, HostGrant) and data.draw(st.booleans()):
                heard[r], lease[r] = int(message.id.split("#")[1]), message.most
                hosts[r] = max(hosts[r], message.target)
        assert sum(lease) <= budget.hosts
        assert sum(hosts) <= budget.hosts


def test_hosts_go_to_the_greatest_need() -> None:
    centre = InfrastructureManager("centre", InfrastructureState(Numbering("centre")), Budget(5, allowance=0))
    inbox: list[Message] = []
    for name, unmet in (("a", 1.0), ("b", 7.0)):
        head = {"sender": name, "to": "centre", "time_s": 0.0}
        inbox.append(RegionReport(**head, id=f"{name}#1", region=name, hosts=2, heard=0, most=2))
        inbox.append(HostRequest(**head, id=f"{name}#2", region=name, hosts=2, change=1, unmet_slots=unmet, reason=""))
    out = centre.step(inbox, 0)
    assert {m.to: m.target for m in out if isinstance(m, HostGrant)} == {"a": 2, "b": 3}
    assert [m.to for m in out if isinstance(m, Denial)] == ["a"]


def region(hosts: int, **kept: object) -> RegionManager:
    state = RegionState(Numbering("region"), hosts, hosts, 0.0)
    return RegionManager("region", state, {"a": "app", "b": "app"}, "centre", RegionSettings(**kept))  # type: ignore[arg-type]


def host(name: str, replicas: dict[str, int], up: bool = True) -> HostView:
    return HostView(name, 4.0, 8, up, replicas)


def test_a_region_seats_orders_on_hosts_with_room() -> None:
    view = RegionView((host("h0", {"a": 3}), host("h1", {"b": 1})), {"a": 2.4, "b": 0.1})
    order = Rescale(id="a#1", sender="a", to="region", time_s=0, operator="a", target=4)
    _, commands = region(2).step(view, [order, order], 0)
    assert commands == [Seat("a", {"h0": 3, "h1": 1})]


def test_a_region_asks_before_it_grows_and_takes_its_lease_in_a_silence() -> None:
    view = RegionView((host("h0", {"a": 4}),), {"a": 3.9})
    manager = region(1)
    out, commands = manager.step(view, [], 0)
    assert [m.change for m in out if isinstance(m, HostRequest)] == [1]
    assert not commands
    lease = HostGrant(id="centre#1", sender="centre", to="region", time_s=0, target=1, most=2, reason="")
    manager.step(view, [lease], 30)
    _, commands = manager.step(view, [], 400)
    assert commands == [HaveHosts("region", 2)]


def test_a_region_empties_the_host_it_can_do_without_and_only_with_consent() -> None:
    hosts = (host("h0", {"a": 2}), host("h1", {"b": 1}), host("h2", {"a": 1, "b": 1}))
    view = RegionView(hosts, {"a": 0.6, "b": 0.2})
    manager = region(3)
    out, commands = manager.step(view, [], 0)
    moves = [m for m in out if isinstance(m, MoveRequest)]
    assert {m.host for m in moves} == {"h1"}
    assert not commands
    assert manager.state.emptying == "h1"


def test_states_are_plain_data() -> None:
    for state in (
        operator().state,
        application("app.op").state,
        region(2).state,
        InfrastructureState(Numbering("centre")),
    ):
        adapter = TypeAdapter(type(state))
        assert adapter.validate_json(adapter.dump_json(state)) == state


def test_a_random_sequence_of_orders_always_seats_them_all() -> None:
    rng = np.random.default_rng(1)
    manager, seats = region(4), {"a": {"h0": 1}, "b": {"h1": 1}}
    for number in range(60):
        name, target = str(rng.choice(["a", "b"])), int(rng.integers(1, 12))
        view = RegionView(
            tuple(host(f"h{i}", {o: s[f"h{i}"] for o, s in seats.items() if f"h{i}" in s}) for i in range(4)),
            {"a": 2.0, "b": 1.0},
        )
        order = Rescale(id=f"{name}#{number + 1}", sender=name, to="region", time_s=0, operator=name, target=target)
        _, commands = manager.step(view, [order], 0.0)
        for command in commands:
            if isinstance(command, Seat):
                seats[command.operator] = command.hosts
        assert sum(seats[name].values()) == target
        assert all(sum(s.get(f"h{i}", 0) for s in seats.values()) <= 8 for i in range(4))
