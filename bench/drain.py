"""How long tasks are silent when one of three members drains, on a real broker, while orders flow.

    python -m bench.drain                  # drain: warmed up elsewhere, then handed over
    python -m bench.drain --close          # the same member just closes, for comparison

One JSON line: the gap of each task that moved (last record of the old owner to the first of the new one, milliseconds),
the longest silence of those that stayed, orders lost and applied twice.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench.growth import at_rest, await_that
from kstreams_assign.demo.stage import DemoSettings, Stage
from kstreams_assign.demo.story import StartOrders, StopOrders
from kstreams_assign.demo.summary import summarize
from kstreams_assign.demo.worker import DRAIN
from kstreams_assign.local import LocalBroker

MEMBERS = ("w1", "w2", "w3")
RECOVERY_LAG = 500
LIMIT_S = 120.0


def main(arguments: list[str]) -> None:
    """Print one JSON line for one run."""
    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--close", action="store_true", help="close instead of draining")
    options = parser.parse_args(arguments)
    worker = {"acceptable_recovery_lag": RECOVERY_LAG, "session_timeout_ms": 10_000, "early_probing_floor_ms": 1_000}
    settings = DemoSettings(application_id="drain", orders_per_s=2_000, worker=worker)
    with (
        LocalBroker() as broker,
        tempfile.TemporaryDirectory() as folder,
        Stage(broker.bootstrap_servers, Path(folder), settings) as stage,
    ):
        print(json.dumps({"how": "close" if options.close else "drain", **leave(stage, drain=not options.close)}))


def leave(stage: Stage, *, drain: bool) -> dict[str, object]:
    """Three members at work, then the second one leaves."""
    for name in MEMBERS:
        stage.start_worker(name)
    await_that(stage, lambda: at_rest(stage, len(MEMBERS)), LIMIT_S, "three members are at rest")
    stage.do(StartOrders())
    await_that(stage, lambda: stage.world.shortest_changelog > 10 * RECOVERY_LAG, LIMIT_S, "there is state")
    if drain:
        stage.expect_exit("w2")
        stage.tell_worker("w2", DRAIN)
    else:
        stage.stop_worker("w2")
    await_that(stage, lambda: at_rest(stage, len(MEMBERS) - 1), LIMIT_S, "the two others have everything")
    stage.do(StopOrders())
    await_that(stage, lambda: stage.all_processed, LIMIT_S, "all orders are processed")
    stage.stop_workers()
    stage.turn(0)
    facts = summarize(
        stage.fleet_state,
        stage.rows(),
        stage.findings(),
        broker_version="any",
        seed=stage.settings.seed,
        tasks=stage.settings.partitions,
        orders_in=stage.orders_in,
        acceptable_lag=RECOVERY_LAG,
        seconds=0,
    )
    gaps = [move["gap_ms"] for move in facts["moves"] if move["from"] == "w2"]
    kept = ("stay_silence_ms_max", "lost", "duplicated", "records_in")
    return {"gaps_ms": gaps, **{key: facts[key] for key in kept}}


if __name__ == "__main__":
    main(sys.argv[1:])
