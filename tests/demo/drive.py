"""Driving a stage in a test: turn it until a condition holds, then look at what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from kstreams_assign.demo.check import Findings
from kstreams_assign.demo.stage import DemoSettings, Stage
from kstreams_assign.demo.story import StartOrders, StopOrders

QUICK = {
    "num_standby_replicas": 1,
    "acceptable_recovery_lag": 1_000,
    "max_warmup_replicas": 4,
    "session_timeout_ms": 6_000,
}


def quick(application_id: str, **settings) -> DemoSettings:
    return DemoSettings(application_id=application_id, **{"worker": QUICK, "orders_per_s": 1_000, **settings})


def turn_until(stage: Stage, condition: Callable[[], bool], limit_s: float = 100.0) -> None:
    """Let time pass until the condition holds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        stage.turn(0.05)
        assert time.monotonic() < deadline, [
            f"{worker.name} alive={worker.alive} generation={worker.adopted_generation} {worker.tasks}"
            for worker in stage.fleet_state.workers.values()
        ]


def turn_for(stage: Stage, seconds: float) -> None:
    """Let so much time pass."""
    end = time.monotonic() + seconds
    turn_until(stage, lambda: time.monotonic() >= end)


def all_run(stage: Stage) -> bool:
    return stage.fleet_state.settled and len(stage.fleet_state.owners) == stage.settings.partitions


def start(stage: Stage, *names: str) -> None:
    """These workers form a group, then orders flow."""
    for name in names:
        stage.start_worker(name)
    turn_until(stage, lambda: len(stage.fleet_state.alive) == len(names) and all_run(stage))
    stage.do(StartOrders())


def finish(stage: Stage, limit_s: float = 100.0, *, all_processed: bool = True) -> Findings:
    """Orders stop, the rest is processed, workers close; what is left is compared."""
    stage.do(StopOrders())
    turn_until(stage, lambda: all_run(stage) and (stage.all_processed or not all_processed), limit_s)
    stage.stop_workers()
    stage.turn(0)
    return stage.findings()
