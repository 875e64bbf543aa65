"""The controllers of a fleet's three levels: one place that says which proposers and guards each of them has.

Live hosts, regions and the centre use these, and so does the simulated fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegate.control.controller import Controller
from tidegate.control.knowledge import Knowledge
from tidegate.domain.policy import Policy
from tidegate.fleet.config import FleetConfig, ManagerRule
from tidegate.fleet.plan.asking import AloneRule, AskCentre, Elastic
from tidegate.fleet.plan.budget import HostBudget, HostLimits
from tidegate.fleet.plan.placing import Placing, PlacingSettings
from tidegate.fleet.plan.relieving import RegionHosts, ReliefRule
from tidegate.fleet.plan.replicas import OperatorPolicies
from tidegate.fleet.plan.requests import Requests, RequestSettings
from tidegate.fleet.plan.sizing import RegionLimits, RegionSizes
from tidegate.fleet.plan.tokens import Tokens
from tidegate.managers.tokenbucket import TokenRule
from tidegate.plan.arbiter import BUILT_IN
from tidegate.plan.operators import Operators
from tidegate.plan.planner import Proposer


class HostParts(NamedTuple):
    """A host's controller, and the parts of it that the host itself uses."""

    controller: Controller
    policies: OperatorPolicies | None
    """None if the proposer of a single job sets the tasks of operators."""
    asking: AskCentre


class CentreParts(NamedTuple):
    controller: Controller
    tokens: Tokens


def host_controller(
    policy: Policy,
    managers: ManagerRule,
    knowledge: Knowledge | None = None,
    others: Sequence[Proposer] | None = None,
) -> HostParts:
    """A single job's controller that asks the centre. `others`: proposers besides that of tasks; by default all."""
    policies = None if managers.policy == "operators" else OperatorPolicies(managers.policy, managers.period_s)
    asking = AskCentre(AloneRule(managers.silence_s, managers.allowance, managers.alone_pause_s))
    if others is None:
        others = [kind() for kind in BUILT_IN if policies is None or kind is not Operators]
    proposers = [*others] if policies is None else [*others, policies]
    controller = Controller(policy, knowledge, proposers=proposers, guards=(Elastic(), asking))
    controller.forget_targets()
    return HostParts(controller, policies, asking)


def region_controller(region: str, config: FleetConfig, knowledge: Knowledge | None = None) -> Controller:
    """The controller of a region. All that it proposes becomes requests to the centre."""
    rule = config.regions.get(region)
    relief = ReliefRule(
        region,
        fill=config.fill,
        spare=config.managers.spare,
        margin=config.managers.spare,
        least_hosts=max(1, rule.min_hosts if rule is not None else 1),
        most_applications=config.host.applications,
        cool_down_s=config.timing.spare_s,
    )
    policy = config.policy.model_copy(update={"interval_s": config.managers.period_s})
    return Controller(policy, knowledge, proposers=[RegionHosts(relief)], guards=[AskCentre()])


def centre_controller(config: FleetConfig, knowledge: Knowledge | None = None) -> CentreParts:
    """The controller of the centre, within the limits of the fleet's file."""
    tokens = Tokens(TokenRule(config.managers.tokens, config.managers.refill_s))
    limits = HostLimits(
        config.most_hosts,
        {name: rule.max_hosts for name, rule in config.regions.items()},
        {name: rule.price_per_hour for name, rule in config.regions.items()},
        config.most_cost_per_hour,
    )
    sizes = {name: RegionLimits(rule.min_hosts, rule.max_hosts) for name, rule in config.regions.items()}
    controller = Controller(
        config.policy.model_copy(update={"interval_s": config.timing.poll_s}),
        knowledge,
        proposers=(
            Requests(RequestSettings(config.fill)),
            RegionSizes(sizes, config.timing.spare_s),
            Placing(PlacingSettings(config.scheduler, config.fill, config.timing.move_pause_s)),
        ),
        guards=(tokens, HostBudget(limits)),
    )
    controller.forget_targets()  # the registry says what is wanted
    return CentreParts(controller, tokens)
