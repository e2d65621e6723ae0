"""Tasks that stay are not silent while a rebalance waits for another member, on a real broker."""

from __future__ import annotations

import pytest

from tests.worker.app import PARTITIONS, App, until
from tests.worker.malformed import raw_member, subscriptions
from tests.worker.outputs import committed_outputs, each_once

BEFORE = [b"word-%d" % (n % 7) for n in range(70)]
MEANWHILE = [b"word-%d" % (n % 5) for n in range(50)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_outputs_leave_while_another_member_holds_the_rebalance_up(app: App, guarantee: str) -> None:
    """The other member has heard of the rebalance and does not join, as a slow Java application would."""
    app.send(BEFORE)
    worker = app.start(1, processing_guarantee=guarantee)
    worker.until_running(PARTITIONS)
    with raw_member(app.broker, app.name, app.name, subscriptions(app.name)["empty"]) as slow:
        until(lambda: bool(slow.poll() or slow.user_data or worker.error))
        worker.until_running(PARTITIONS)
        generations, joins = len(worker.named("assigned")), len(worker.named("joining"))
        worker.worker.rejoin("a test asks for it")
        worker.until(lambda _: len(worker.named("joining")) > joins)
        app.send(MEANWHILE)
        until(lambda: committed_outputs(app) == each_once(app))
        assert len(worker.named("assigned")) == generations, "the rebalance was over before"
        until(lambda: bool(slow.poll() or len(worker.named("assigned")) > generations))
    app.until_committed()
    app.until_counted(read_committed=True)
    assert committed_outputs(app) == each_once(app)
    assert not worker.named("lost")
    assert not worker.named("task_failed")
