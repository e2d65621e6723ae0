"""At least once, outputs leave when their batch is done, long before its commit, on a real broker."""

from __future__ import annotations

from contextlib import closing

from kstreams_assign import TopicPartition
from kstreams_assign.adapters.confluent import CommittedOffsets
from kstreams_assign.events import LostEvent
from tests.worker.app import PARTITIONS, PATIENCE_S, App, until
from tests.worker.outputs import committed_outputs, each_once

WORDS = [b"word-%d" % (n % 7) for n in range(70)]
RARELY_MS = 600_000
"""Longer than a test: a commit comes only where something else asks for it."""


def committed(app: App) -> int:
    """Return how many inputs the group has committed."""
    partitions = [TopicPartition(app.name, partition) for partition in range(PARTITIONS)]
    with closing(CommittedOffsets(app.broker, None, group_id=app.name)) as offsets:
        return sum(offsets.read(partitions, PATIENCE_S).values())


def test_outputs_do_not_wait_for_the_commit(app: App) -> None:
    worker = app.start(1, commit_interval_ms=RARELY_MS)
    worker.until_running(PARTITIONS)
    app.send(WORDS)
    until(lambda: committed_outputs(app) == each_once(app))
    assert committed(app) == 0
    worker.stop()
    assert committed_outputs(app) == each_once(app), "the last commit sends none of them again"
    app.until_committed()
    app.until_counted()
    assert not worker.reported(LostEvent)
