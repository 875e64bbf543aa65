"""The data of `tidegate fleet status`: from agents, registry and leases, with or without a centre."""

from __future__ import annotations

import time
from typing import Any

from tidegate.fleet.calls import fleet_wire
from tidegate.fleet.centrelock import centre_pid
from tidegate.fleet.config import FleetConfig, stored_config
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.lease import LeaseRecord
from tidegate.fleet.look import Glance, Lookout
from tidegate.fleet.registry import Registry

_EVENTS = 12


def fleet_report(folder: FleetFolder, registry: Registry) -> dict[str, Any]:
    """The current state. The agents are asked directly, so it is correct even without a centre."""
    glances = Lookout(folder, fleet_wire(folder, stored_config(folder))).look()
    view = registry.fact("view", {})
    return {
        "fleet": str(folder.root),
        "centre": {"pid": centre_pid(folder), "last_step_s_ago": _ago(view.get("time_s"))},
        "regions": _regions(stored_config(folder), registry, glances),
        "hosts": [_host(name, registry, glances, view) for name in sorted({*registry.hosts(), *glances})],
        "applications": [_application(name, folder, registry, glances) for name in registry.applications()],
        "measured": _measured(folder, glances),
        "control": {
            level: said
            for glance in glances.values()
            if glance.status is not None
            for level, said in glance.status.control.items()
        }
        | dict(registry.fact("control", {})),
        "tokens": dict(registry.fact("tokens", {})),
        "pending_requests": list(registry.fact("pending", [])),
        "events": [
            {"s_ago": _ago(event.time_s), "event": event.event, "subject": event.subject, "text": event.text}
            for event in registry.events(_EVENTS)
        ],
    }


def _regions(config: FleetConfig, registry: Registry, glances: dict[str, Glance]) -> list[dict[str, Any]]:
    hosts = registry.hosts().values()
    return [
        {
            "region": region,
            "hosts": sum(entry.spec.region == region for entry in hosts),
            "max_hosts": rule.max_hosts,
            "slots": sum(entry.spec.slots for entry in hosts if entry.spec.region == region),
            "busy_slots": _busy(glances, region),
        }
        for region, rule in config.regions.items()
    ]


def _busy(glances: dict[str, Glance], region: str) -> float | None:
    loads = [
        tenancy.load_slots
        for glance in glances.values()
        if glance.status is not None and glance.card.spec.region == region
        for tenancy in glance.status.tenancies
        if tenancy.load_slots is not None
    ]
    return round(sum(loads), 2) if loads else None


def _host(name: str, registry: Registry, glances: dict[str, Glance], view: dict[str, Any]) -> dict[str, Any]:
    entry, glance = registry.hosts().get(name), glances.get(name)
    answers = glance is not None and glance.status is not None
    spec = entry.spec if entry is not None else glance.card.spec if glance is not None else None
    state = view.get("hosts", {}).get(name, "starting")
    return {
        "host": name,
        "region": spec.region if spec is not None else None,
        "slots": spec.slots if spec is not None else None,
        "state": "leaving" if entry is not None and entry.leaving else "ready" if answers else state,
        "address": f"{glance.card.address[0]}:{glance.card.address[1]}" if glance is not None else None,
        "pid": glance.card.pid if glance is not None else None,
        "note": glance.note if glance is not None else "",
    }


def _application(name: str, folder: FleetFolder, registry: Registry, glances: dict[str, Glance]) -> dict[str, Any]:
    entry, lease = registry.applications()[name], _lease(folder, name)
    running = [
        (host, tenancy)
        for host, glance in glances.items()
        if glance.status is not None
        for tenancy in glance.status.tenancies
        if tenancy.spec.name == name
    ]
    holding = [(host, tenancy) for host, tenancy in running if tenancy.epoch is not None]
    host, tenancy = next(iter([*holding, *running]), ("", None))
    return {
        "application": name,
        "region": entry.spec.region,
        "assigned": entry.host,
        "host": host or None,
        "running_on": len(holding),
        "phase": str(tenancy.phase) if tenancy is not None else None,
        "epoch": lease.epoch if lease is not None else None,
        "lease_holder": lease.owner.partition("/")[0] if lease is not None and not lease.released else None,
        "busy_slots": None if tenancy is None or tenancy.load_slots is None else round(tenancy.load_slots, 2),
        "latency_p99_s": None if tenancy is None or tenancy.latency_p99_s is None else round(tenancy.latency_p99_s, 2),
        "objective_s": entry.spec.latency_s,
        "tasks": dict(tenancy.parallelism) if tenancy is not None else {},
        "note": tenancy.note if tenancy is not None else "",
    }


def _measured(folder: FleetFolder, glances: dict[str, Glance]) -> list[dict[str, Any]]:
    """The metrics that tables and graphs in the fleet's file need, and the hosts' measurements of them."""
    rules = stored_config(folder).policy.applications
    return [
        {
            "application": tenancy.spec.name,
            "host": host,
            "objective": str(wanted),
            "mean": tenancy.measured.get(wanted.measured),
        }
        for host, glance in glances.items()
        if glance.status is not None
        for tenancy in glance.status.tenancies
        if tenancy.spec.name in rules
        for wanted in (*rules[tenancy.spec.name].qos_table, *rules[tenancy.spec.name].qos_graphs)
    ]


def _lease(folder: FleetFolder, application: str) -> LeaseRecord | None:
    try:
        return folder.lease(application).read()
    except OSError:
        return None  # not placed yet


def _ago(time_s: float | None) -> float | None:
    return None if time_s is None else round(time.time() - time_s, 1)
