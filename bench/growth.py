"""A group of 200 stateful tasks grows from ten members to eleven, on a real broker: how many rounds, and how long.

    python -m bench.growth --mode early
    python -m bench.growth --mode queue
    python -m bench.growth --mode interval                                   # ten minutes, at Kafka's shortest interval
    python -m bench.growth --mode interval --assignor high_availability --limit-s 7200

Members are processes of their own, orders keep flowing, and the newcomer's state is cold. One JSON line: rounds and
rebalances from the eleventh member's start until the leader wants nothing more, owner changes, the seconds that took,
and the most extra copies that were on disk at a time. Not among the suites of ``python -m bench``: it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kstreams_assign.demo.stage import DemoSettings, Stage
from kstreams_assign.demo.story import StartOrders, StopOrders
from kstreams_assign.local import LocalBroker

MODES = {
    "interval": {"early_probing": "false"},
    "early": {"early_probing": "true"},
    "queue": {"early_probing": "true", "warmup_queue": "true"},
}
RECOVERY_LAG = 20


def main(arguments: list[str]) -> None:
    """Print one JSON line for one run."""
    options = parse(arguments)
    settings = DemoSettings(
        application_id="growth",
        partitions=options.tasks,
        orders_per_s=options.orders_per_s,
        worker={
            "acceptable_recovery_lag": RECOVERY_LAG,
            "max_warmup_replicas": 2,
            "num_standby_replicas": options.standbys,
            "probing_rebalance_interval_ms": 60_000,
            "session_timeout_ms": 30_000,
            "assignor": options.assignor,
            **MODES[options.mode],
        },
    )
    with (
        LocalBroker() as broker,
        tempfile.TemporaryDirectory() as folder,
        Stage(broker.bootstrap_servers, Path(folder), settings) as stage,
    ):
        print(json.dumps({"mode": options.mode, "assignor": options.assignor, **grow(stage, options)}))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--assignor", default="least_movement")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--members", type=int, default=10, help="before one more joins")
    parser.add_argument("--standbys", type=int, default=0)
    parser.add_argument("--orders-per-s", type=int, default=1_000)
    parser.add_argument("--limit-s", type=float, default=1_800, help="give up after so long")
    return parser.parse_args(arguments)


def grow(stage: Stage, options: argparse.Namespace) -> dict[str, float | int]:
    """Let the first members come to rest, make state, add one more, and count until the group is at rest again."""
    for number in range(1, options.members + 1):
        stage.start_worker(f"w{number}")
    await_that(stage, lambda: at_rest(stage, options.members), options.limit_s, "the first members are at rest")
    stage.do(StartOrders())
    await_that(stage, lambda: stage.world.shortest_changelog > 5 * RECOVERY_LAG, options.limit_s, "there is state")
    fleet_state = stage.fleet_state
    rounds_before, rebalances_before = _rounds(stage), len(fleet_state.rebalances)
    began, copies = time.monotonic(), [0]
    stage.start_worker(f"w{options.members + 1}")

    def grown() -> bool:
        copies[0] = max(
            copies[0], sum(v.role == "warmup" for worker in fleet_state.alive for v in worker.tasks.values())
        )
        return at_rest(stage, options.members + 1)

    await_that(stage, grown, options.limit_s, "the grown group is at rest")
    seconds = time.monotonic() - began
    rounds = [
        decision for decision in fleet_state.decisions if decision.kind == "round" and decision.generation is not None
    ]
    made = rounds[rounds_before:]
    stage.do(StopOrders())
    return {
        "rounds": len(made),
        "rebalances": len(fleet_state.rebalances) - rebalances_before,
        "owner_changes": sum(len(decision.changed) for decision in made),
        "lower_bound": made[0].owner_changes_lower_bound,
        "warm_ups_at_a_time": copies[0],
        "seconds": round(seconds, 1),
    }


def await_that(stage: Stage, condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Turn the stage until it is so."""
    began = reported_at = time.monotonic()
    while not condition():
        stage.turn(0.2)
        now = time.monotonic()
        if now - began > limit_s:
            sys.exit(f"after {limit_s:.0f} s it was still not so that {what}")
        if now - reported_at > 10:
            reported_at = now
            print(f"{now - began:6.0f} s: waiting until {what}; {_rounds(stage)} rounds so far", file=sys.stderr)


def at_rest(stage: Stage, members: int) -> bool:
    """So many members, every task at work, and the leader wants nothing more."""
    fleet_state = stage.fleet_state
    return (
        fleet_state.converged
        and len(fleet_state.alive) == members
        and len(fleet_state.owners) == stage.settings.partitions
    )


def _rounds(stage: Stage) -> int:
    return sum(decision.kind == "round" and decision.generation is not None for decision in stage.fleet_state.decisions)


if __name__ == "__main__":
    main(sys.argv[1:])
