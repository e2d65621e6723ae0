"""Events as a fleet tells them, short to write."""

from __future__ import annotations

from kstreams_assign.demo.fleet_state import FleetState


def started(worker, at=0):
    return {"time_ms": at, "event": "started", "worker": worker, "pid": 1}


def exited(worker, at=0, status=-9):
    return {"time_ms": at, "event": "exited", "worker": worker, "status": status}


def joining(worker, at=0, reason="the group rebalances"):
    return {"time_ms": at, "event": "joining", "worker": worker, "reason": reason}


def decision(worker, at=0, **facts):
    plain = {
        "kind": "round",
        "assignor": "high_availability",
        "members": 1,
        "placements": {},
        "changed": {},
        "adopted": [],
        "owner_changes_lower_bound": 0,
        "withheld": [],
        "next_probe_ms": None,
        "error": 0,
        "warnings": [],
    }
    return {"time_ms": at, "event": "decision", "worker": worker, **plain, **facts}


def assigned(worker, generation, at=0, active=(), standby=(), warmup=(), next_probe_ms=None):
    lists = {"active": list(active), "standby": list(standby), "warmup": list(warmup)}
    return {
        "time_ms": at,
        "event": "assigned",
        "worker": worker,
        "generation": generation,
        "next_probe_ms": next_probe_ms,
        "follow_up": False,
        **lists,
    }


def adopted(worker, generation, at=0):
    return {"time_ms": at, "event": "adopted", "worker": worker, "generation": generation, "left": [], "came": []}


def status(worker, at=0, records_total=0, **tasks):
    """Tasks as ``t0_1=("active", "running", 0)``."""
    tasks = {name[1:]: dict(zip(("role", "state", "lag"), facts, strict=True)) for name, facts in tasks.items()}
    return {"time_ms": at, "event": "status", "worker": worker, "tasks": tasks, "records_total": records_total}


def fleet_state_of(*events):
    fleet_state = FleetState()
    for event in events:
        fleet_state.hear(event)
    return fleet_state


def single_worker(worker="w1", generation=1, **facts):
    """A group of one that has adopted what it decided and runs task 0_0."""
    return [
        started(worker),
        joining(worker, at=10),
        decision(worker, at=20, **facts),
        assigned(worker, generation, at=30, active=["0_0"], next_probe_ms=facts.get("next_probe_ms")),
        adopted(worker, generation, at=40),
        status(worker, at=50, t0_0=("active", "running", 0)),
    ]
