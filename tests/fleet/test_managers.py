"""Requests and grants between host and centre, what a host does alone, and what tokens and budgets hold."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.fleet.steps import evaluation
from tidegate.control.controller import Controller
from tidegate.control.knowledge import Knowledge
from tidegate.domain import (
    Action,
    ActionReceipt,
    AddHost,
    ApplicationSample,
    BatchSample,
    Decision,
    ExecutorPool,
    ExecutorSample,
    FleetApplication,
    FleetHost,
    FleetSample,
    Held,
    HostState,
    LatencySample,
    MoveApplication,
    Observation,
    OperatorSample,
    Outcome,
    Reason,
    Receipt,
    RemoveHost,
    Request,
    SetParallelism,
    Standing,
)
from tidegate.domain.policy import Policy
from tidegate.fleet.look import Glance
from tidegate.fleet.plan.asking import AloneRule, AskCentre, Elastic, requests_of
from tidegate.fleet.plan.budget import HostBudget, HostLimits
from tidegate.fleet.plan.relieving import RegionHosts, ReliefRule
from tidegate.fleet.plan.replicas import OperatorPolicies, PolicyName
from tidegate.fleet.plan.requests import Requests
from tidegate.fleet.plan.sizing import RegionLimits, RegionSizes
from tidegate.fleet.plan.tokens import Tokens
from tidegate.fleet.speaker import region_applications
from tidegate.fleet.vocabulary import AgentStatus, ApplicationSpec, HostCard, HostSpec, Phase, Tenancy
from tidegate.managers.tokenbucket import TokenRule

ROW_S, STEP_S = 0.01, 5.0
POLICY = Policy.model_validate({"applications": {"words": {"objective": {"latency_s": 10}}}})


class World:
    """One host with one look-up of 10 ms a row, and the centre; their messages are carried by hand."""

    def __init__(self, policy: PolicyName = "threshold", knowledge: Knowledge | None = None) -> None:
        self.policies = OperatorPolicies(policy, STEP_S)
        self.asking = AskCentre(AloneRule(silence_s=12, allowance=1, pause_s=10))
        self.host = Controller(POLICY, knowledge, None, [self.policies], [Elastic(), self.asking])
        self.tokens = Tokens(TokenRule(size=3, refill_s=30))
        self.centre: Controller | None = self.new_centre()
        self.rate, self.tasks, self.restarts = 30.0, 1, 0
        self.now_s, self.heard_s, self.batch = 1000.0, 1000.0, 0
        self.granted: tuple[Action, ...] = ()
        self.decision: Decision

    def new_centre(self) -> Controller:
        self.tokens = Tokens(TokenRule(size=3, refill_s=30))
        return Controller(Policy(), None, None, [Requests()], [self.tokens])

    @property
    def late(self) -> bool:
        return self.rate * ROW_S > self.tasks

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.now_s += STEP_S
            self.batch += 1
            self._host_step()
            if self.centre is not None:
                self._centre_step(self.centre)

    def _host_step(self) -> None:
        rows = round(min(self.rate, self.tasks / ROW_S) * STEP_S)
        operator = OperatorSample("lookup", self.tasks, rows, rows * ROW_S, None, None, None)
        p99_s = 20.0 if self.late else 3.0
        latency = LatencySample(rows, 1.0, 2.0, p99_s, p99_s)
        started_s = self.now_s - STEP_S
        batch = BatchSample(self.batch, started_s, 4.9, rows, rows * ROW_S, 0.1, 0, latency, (operator,))
        sample = ApplicationSample("words", (batch,), self.now_s, STEP_S, restartable=True)
        pool = ExecutorPool((ExecutorSample("driver", "h", 4, 0, 0.0),), 1, 4, scalable=False)
        standing = Standing(self.now_s - self.heard_s, self.granted, {"words": {"lookup": 4}})
        self.decision = self.host.step(Observation(self.now_s, (sample,), pool, standing=standing))
        receipts = []
        for action in self.decision.actions:
            assert isinstance(action, SetParallelism)
            self.tasks, self.restarts = action.parallelism, self.restarts + 1
            receipts.append(ActionReceipt(action, Outcome.UNDER_WAY))
        self.host.learn(self.decision, Receipt(tuple(receipts)))

    def _centre_step(self, centre: Controller) -> None:
        alone = self.asking.memory.changes.get("words", 0)
        p99_s = 20.0 if self.late else 3.0
        words = FleetApplication("words", "east", 1.0, "east-1", "east-1", True, True, None, p99_s, 10.0, alone)
        fleet = FleetSample((FleetHost("east-1", "east", 4),), (words,), requests_of(self.decision, "east-1"))
        decision = centre.step(Observation(self.now_s, (), ExecutorPool((), 0, 1), fleet=fleet))
        centre.learn(decision, Receipt(tuple(ActionReceipt(one, Outcome.UNDER_WAY) for one in decision.actions)))
        targets = centre.knowledge.targets
        self.granted = tuple(one for one in targets.actions() if isinstance(one, SetParallelism))
        self.heard_s = self.now_s


def test_a_busy_operator_asks_and_gets_what_the_centre_grants() -> None:
    world = World()
    world.play(4)
    assert world.restarts == 0
    world.rate = 150.0
    while not world.decision.held:
        world.play(1)
    (held,) = world.decision.held
    assert (held.guard, held.wanted) == ("centre", SetParallelism("words", "lookup", 2))
    world.play(8)
    assert world.tasks == 3, "150 rows/s of 10 ms keep three tasks half busy"
    assert world.tokens.left()["words"] < 3


def test_alone_it_acts_within_its_allowance_and_the_centre_returns_without_a_jump() -> None:
    world = World()
    world.play(4)
    world.centre = None
    world.rate = 250.0
    world.play(12)
    assert world.tasks == 2, "one more than agreed to, not four"
    alone = world.restarts
    world.centre = world.new_centre()
    world.play(1)
    assert world.restarts == alone, "the centre's return alone changes nothing"
    assert world.tokens.left()["words"] == pytest.approx(1.0), "charged for what was done alone, and for the next"
    world.play(8)
    assert world.tasks == 4, "then requests are granted again"


def test_a_flapping_operator_is_held_by_its_tokens() -> None:
    """At most B + r·T restarts, and the rescue lane's own B + r·T."""
    world = World()
    for _ in range(60):
        world.rate = 390.0 if world.tasks < 3 else 10.0
        world.play(1)
    bound = 3 + 60 * STEP_S / 30
    assert bound / 2 < world.restarts <= 2 * bound


class Pausing(World):
    """Rows that waited for a restart are over the objective."""

    known, changed_at = 1, -10

    @property
    def late(self) -> bool:
        if self.tasks != self.known:
            self.known, self.changed_at = self.tasks, self.batch
        return self.rate * ROW_S > self.tasks or self.batch - self.changed_at <= 1


def test_rows_that_waited_for_a_restart_do_not_count_against_the_new_number_of_tasks() -> None:
    world = Pausing("model-based")
    world.rate = 150.0
    while world.tasks < 2:
        world.play(1)
    world.play(6)
    late = world.policies.learned("words")["lookup"]["late"]
    assert max(late[world.tasks][:12]) == 0.0, "150 of 400 rows/s are level 11 of 30"


@pytest.mark.parametrize("policy", ["q-learning", "model-based"])
def test_what_a_policy_learned_survives_a_restart_and_a_move(policy: PolicyName) -> None:
    world = World(policy)
    world.rate = 150.0
    world.play(30)
    assert world.tasks >= 2
    learned = world.policies.learned("words")["lookup"]
    assert learned["policy"] == policy
    saved = Knowledge.from_bytes(world.host.knowledge.to_bytes())
    again = World(policy, saved)
    assert again.policies.memory.learned["words"]["lookup"] == learned, "on the same host"
    elsewhere = World(policy)
    elsewhere.policies.know("words", json.loads(json.dumps({"lookup": learned})))
    elsewhere.rate, elsewhere.tasks = 150.0, world.tasks
    elsewhere.play(1)
    seen = "steps" if policy == "q-learning" else "watched"
    now = elsewhere.policies.learned("words")["lookup"]
    assert now[seen] >= learned[seen] > 10, "goes on from there"


def test_of_a_crowded_host_one_application_asks_for_another() -> None:
    """If all asked, the next host would be just as crowded. Right after a restart nobody asks: it has to catch up."""
    proposer = OperatorPolicies("threshold", 0.0)
    operator = OperatorSample("lookup", 2, 2000, 20.0, None, None, None)
    samples = tuple(
        ApplicationSample(
            name, tuple(replace(one, batch_id=n, started_s=900 + 10.0 * n) for n in range(8)), 990.0, 10.0
        )
        for name, slowest_s in (("clicks", 25), ("words", 30))
        for latency in [LatencySample(2000, 1, 2, slowest_s, slowest_s)]
        for one in [BatchSample(0, 0, 9.9, 2000, 20.0, 0.1, 900, latency, (operator,))]
    )
    pool = ExecutorPool((ExecutorSample("driver", "h", 2, 0, 0.0),), 1, 2, scalable=False)
    host = Controller(POLICY, None, None, [proposer], [Elastic(), AskCentre()])
    standing = Standing(0.0, (), {"words": {"lookup": 2}, "clicks": {"lookup": 2}})
    first = host.step(Observation(950.0, samples, pool, standing=standing))
    assert requests_of(first, "east-1") == ()
    decision = host.step(Observation(990.0, samples, pool, standing=standing))
    (request,) = requests_of(decision, "east-1")
    assert request.action == MoveApplication("words", None)
    assert request.urgent
    assert "no free slot" in request.reason


def test_a_request_carries_the_reason_of_its_own_application() -> None:
    reasons = (Reason("crowded", "app-10 has no free slot"), Reason("crowded", "app-1 has no free slot"))
    held = (Held("centre", MoveApplication("app-1", None), Reason("centre", "the centre decides")),)
    decision = Decision(1, 0.0, (), held, reasons)
    (request,) = requests_of(decision, "east-1")
    assert request.reason == "app-1 has no free slot"


def test_a_move_goes_where_there_is_room_and_nowhere_else() -> None:
    hosts = (FleetHost("e1", "east", 2), FleetHost("e2", "east", 2), FleetHost("w1", "west", 4))
    asked = Request("e1", MoveApplication("words", None), "crowded", 1.0, True)
    words = FleetApplication("words", "east", 1.0, "e1", "e1")
    other = FleetApplication("other", "east", 1.2, "e2", "e2")
    (found,) = Requests().propose(evaluation(FleetSample(hosts, (words,), (asked,)))).proposals
    assert found.action == MoveApplication("words", "e2")
    (found,) = Requests().propose(evaluation(FleetSample(hosts, (words, other), (asked,)))).proposals
    assert found.action == MoveApplication("words", "w1"), "east is full"
    plan = Requests().propose(evaluation(FleetSample(hosts[:2], (words, other), (asked,))))
    assert (plan.proposals, plan.reasons[0].code) == ((), "hold-no-room")
    pinned = replace(words, pinned=True)
    assert Requests().propose(evaluation(FleetSample(hosts, (pinned,), (asked,)))).reasons[0].code == "hold-pinned"


def test_the_centre_grants_as_many_as_have_tokens_and_counts_no_disruptions_of_its_own() -> None:
    """A policy's 30 disruptions an hour are one host's; a fleet has many."""
    hosts = tuple(FleetHost(f"e{n}", "east", 2) for n in range(50))
    applications = tuple(FleetApplication(f"a{n}", "east", 1.0, f"e{n}", f"e{n}") for n in range(50))
    asked = tuple(Request(f"e{n}", SetParallelism(f"a{n}", "count", 2), "busy", 1.0) for n in range(50))
    centre = Controller(Policy(), None, None, [Requests()], [Tokens(TokenRule(3, 30))])
    seen = Observation(1000.0, (), ExecutorPool((), 0, 1), fleet=FleetSample(hosts, applications, asked))
    first = centre.step(seen)
    centre.learn(first, Receipt(tuple(ActionReceipt(one, Outcome.UNDER_WAY) for one in first.actions)))
    done = FleetSample(hosts, applications)
    centre.learn(centre.step(replace(seen, time_s=1001.0, fleet=done)), Receipt())
    again = centre.step(replace(seen, time_s=1002.0))
    assert (len(first.actions), len(again.actions)) == (50, 50)


def test_regions_get_their_least_hosts_and_what_they_ask_for_within_the_budget() -> None:
    regions = {"east": RegionLimits(1, 3), "west": RegionLimits(1, 3)}
    limits = HostLimits(4, {"east": 3, "west": 3}, {"east": 2.0, "west": 1.0}, most_cost_per_h=6.0)
    centre = Controller(Policy(), None, None, [RegionSizes(regions)], [HostBudget(limits)])
    asked = tuple(Request("east", AddHost(f"east+{n}", "east"), "busy", 2.0) for n in (1, 2))
    fleet = FleetSample((FleetHost("east-1", "east", 2),), (), asked, host_numbers={"east": 4})
    decision = centre.step(Observation(1000.0, (), ExecutorPool((), 0, 1), fleet=fleet))
    added = [action for action in decision.actions if isinstance(action, AddHost)]
    assert added == [AddHost("west-1", "west"), AddHost("east-5", "east")], "the least first, and new names"
    (held,) = decision.held
    assert "cost" in held.reason.text


def test_a_start_that_fails_is_tried_again_later_and_later() -> None:
    centre = Controller(Policy(), None, None, [RegionSizes({"local": RegionLimits(1, 2)})], [])
    tried = []
    for second in range(20):
        decision = centre.step(Observation(1000.0 + second, (), ExecutorPool((), 0, 1), fleet=FleetSample((), ())))
        tried += [second for _ in decision.actions]
        centre.learn(decision, Receipt(tuple(ActionReceipt(one, Outcome.FAILED) for one in decision.actions)))
    assert tried == [0, 5, 15]


def test_a_region_relieves_a_hot_host_grows_and_gives_an_empty_host_back() -> None:
    rule = ReliefRule("east", cool_down_s=0.0)
    one, two = FleetHost("e1", "east", 2), FleetHost("e2", "east", 2)

    def asks(hosts: tuple[FleetHost, ...], *applications: FleetApplication) -> list[Action]:
        standing = Standing(0.0)
        region = Controller(Policy(), None, None, [RegionHosts(rule)], [AskCentre()])
        fleet = FleetSample(hosts, applications)
        seen = Observation(1000.0, (), ExecutorPool((), 0, 1), fleet=fleet, standing=standing)
        return [request.action for request in requests_of(region.step(seen), "east")]

    a, b = FleetApplication("a", "east", 1.1, "e1", "e1"), FleetApplication("b", "east", 1.1, "e1", "e1")
    assert asks((one,), a, b) == [AddHost("east+1", "east")]
    assert asks((one, replace(two, state=HostState.STARTING)), a, b) == []
    assert asks((one, two), a, b) == [MoveApplication("a", "e2")]
    small = [replace(x, slots=0.1) for x in (a, b)]
    assert asks((one, two), *small) == [RemoveHost("e2")]
    assert asks((one, two), small[0], replace(small[1], assigned="e2", host="e2")) == [MoveApplication("a", "e2")]


class Region:
    """A region with two hosts of two slots; its manager is asked every 5 s."""

    def __init__(self) -> None:
        self.manager = RegionHosts(ReliefRule("east", cool_down_s=60.0))
        self.time_s = 1000.0

    def asks(self, a: float, b: float, c: float) -> list[Action]:
        """`a` and `b` are on the first host, `c` on the second."""
        hosts = (FleetHost("e1", "east", 2), FleetHost("e2", "east", 2))
        needs = (("a", a, "e1"), ("b", b, "e1"), ("c", c, "e2"))
        applications = tuple(FleetApplication(name, "east", need, host, host) for name, need, host in needs)
        seen = evaluation(FleetSample(hosts, applications), self.time_s, Standing(0.0))
        self.time_s += 5.0
        self.manager.watch(seen)
        return [proposal.action for proposal in self.manager.propose(seen).proposals]


def test_a_short_peak_moves_applications_but_starts_no_host() -> None:
    region = Region()
    for _ in range(24):
        assert region.asks(0.9, 0.3, 0.6) == []
    assert region.asks(1.8, 0.3, 0.9) == [MoveApplication("b", "e2")], "the first host is overloaded now"
    asked = [region.asks(1.4, 0.4, 1.2) for _ in range(36)]
    assert [] in asked, "only the current load has risen: 3 slots ÷ 80 % and the spare are more than two hosts"
    assert asked[-1] == [AddHost("east+1", "east")], "it lasts"


def test_an_application_that_moves_is_counted_where_it_goes_with_the_load_that_it_had() -> None:
    """Neither does a second one follow it, nor does its host look idle while it starts."""

    def status(host: str, *tenancies: Tenancy) -> Glance:
        card = HostCard(HostSpec(host, "east", 4), "first", ("127.0.0.1", 1), pid=1, started_s=0.0)
        return Glance(card, AgentStatus(card, 1, tenancies))

    def tenancy(name: str, phase: Phase, load_slots: float | None) -> Tenancy:
        spec = ApplicationSpec(name, "module:build", region="east", slots=0.6)
        return Tenancy(spec, phase, 1, since_s=0.0, load_slots=load_slots)

    a, b = (tenancy(name, Phase.RUNNING, 2.0) for name in "ab")
    glances = [
        {"e1": status("e1", a, b), "e2": status("e2")},
        {"e1": status("e1", a, b), "e2": status("e2", tenancy("a", Phase.WAITING, None))},
        {"e1": status("e1", b), "e2": status("e2", tenancy("a", Phase.WAITING, None))},
        {"e1": status("e1", b), "e2": status("e2", tenancy("a", Phase.RUNNING, None))},
    ]
    manager, hosts = RegionHosts(ReliefRule("east")), tuple(FleetHost(name, "east", 4) for name in ("e1", "e2"))
    asked: list[list[Action]] = []
    for time_s in range(0, 400, 5):
        sample = FleetSample(hosts, region_applications(glances[min(time_s // 5, len(glances) - 1)]))
        seen = evaluation(sample, 1000.0 + time_s, Standing(0.0))
        manager.watch(seen)
        asked.append([proposal.action for proposal in manager.propose(seen).proposals])
    assert asked[0] == [MoveApplication("a", "e2")]
    assert not any(asked[1:])


def test_a_load_that_fills_every_host_does_not_wait() -> None:
    region = Region()
    for _ in range(24):
        assert region.asks(0.9, 0.3, 0.6) == []
    assert AddHost("east+1", "east") in region.asks(2.0, 0.6, 1.8), "4.4 slots on two hosts of two"


def test_a_short_lull_empties_no_host() -> None:
    region = Region()
    for _ in range(24):
        assert region.asks(0.9, 0.3, 0.6) == []
    asked = [region.asks(0.1, 0.1, 0.1) for _ in range(36)]
    assert asked[0] == []
    assert asked[-1] == [MoveApplication("c", "e1")], "it lasts"
