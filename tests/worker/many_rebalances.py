"""Rebalances one after another without a fault, under load: none of them may abort a transaction.

``python -m tests.worker.many_rebalances --count 100 --guarantee exactly_once_v2`` starts a broker of its own and two
workers. They ask for a rebalance in turn; each tenth time a third worker joins and leaves again. The last line is JSON;
exit status 1 if anything was aborted, lost or counted twice, 2 if the count was not reached within ``--seconds``.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import (
    AssignedEvent,
    CommitRefusedEvent,
    DeliveryFailedEvent,
    LostEvent,
    TaskFailedEvent,
    TransactionAbortedEvent,
)
from kstreams_assign.local import LocalBroker
from tests.worker.app import PARTITIONS, App, Running
from tests.worker.outputs import committed_outputs, each_once

WORDS = [b"word-%d" % n for n in range(97)]
LOAD_PAUSE_S = 0.05
THIRD_EACH = 10
UNWANTED = (TransactionAbortedEvent, DeliveryFailedEvent, TaskFailedEvent, CommitRefusedEvent, LostEvent)


def rebalance(app: App, count: int, limit_s: float, **settings: Any) -> dict[str, Any]:
    """Cause ``count`` rebalances under load; return the facts."""
    steady = [app.start(number, **settings) for number in (1, 2)]
    for worker in steady:
        worker.until_running(PARTITIONS // 2)
    began, first, asked = time.monotonic(), _generation(steady[0]), 0
    with _load(app):
        while _generation(steady[0]) - first < count and time.monotonic() - began < limit_s:
            asked += 1
            if asked % THIRD_EACH == 0:
                _come_and_go(app, steady, **settings)
            else:
                _ask(steady, steady[asked % 2])
    app.until_counted(read_committed=True)
    unwanted_counts = {kind.name: sum(len(worker.reported(kind)) for worker in app.workers) for kind in UNWANTED}
    return {
        "rebalances": _generation(steady[0]) - first,
        "seconds": round(time.monotonic() - began, 1),
        "inputs": app.sent.total(),
        **unwanted_counts,
        "exact": committed_outputs(app) == each_once(app),
    }


def _generation(worker: Running) -> int:
    return worker.reported(AssignedEvent)[-1].generation


def _ask(everybody: list[Running], worker: Running) -> None:
    before = _generation(worker)
    worker.worker.rejoin("one more")
    _all_beyond(everybody, before)


def _come_and_go(app: App, everybody: list[Running], **settings: Any) -> None:
    before = _generation(everybody[0])
    third = app.start(3, **settings)
    third.until_event(AssignedEvent)
    _all_beyond(everybody, before)
    before = _generation(everybody[0])
    third.stop()
    _all_beyond(everybody, before)


def _all_beyond(everybody: list[Running], generation: int) -> None:
    for worker in everybody:
        worker.until(lambda events: any(isinstance(e, AssignedEvent) and e.generation > generation for e in events))


@contextmanager
def _load(app: App) -> Iterator[None]:
    """Send records all the while."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(LOAD_PAUSE_S):
            app.send(WORDS)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--guarantee", choices=GUARANTEES, default="exactly_once_v2")
    asked = parser.parse_args()
    with LocalBroker() as broker, TemporaryDirectory() as folder:
        app = App(broker.bootstrap_servers, "many-rebalances", Path(folder))
        try:
            facts = rebalance(app, asked.count, asked.seconds, processing_guarantee=asked.guarantee)
        finally:
            app.stop()
    print(json.dumps({"guarantee": asked.guarantee, **facts}))
    if any(facts[kind.name] for kind in UNWANTED) or not facts["exact"]:
        return 1
    return 0 if facts["rebalances"] >= asked.count else 2


if __name__ == "__main__":
    sys.exit(main())
