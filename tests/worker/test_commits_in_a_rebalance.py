"""At least once, tasks that stay are not silent while a rebalance waits for another member, on a real broker."""

from __future__ import annotations

from kstreams_assign.events import AssignedEvent, JoiningEvent, LostEvent, TaskFailedEvent
from tests.worker.app import PARTITIONS, App, until
from tests.worker.malformed import raw_member, subscriptions
from tests.worker.outputs import committed_outputs, each_once

BEFORE = [b"word-%d" % (n % 7) for n in range(70)]
MEANWHILE = [b"word-%d" % (n % 5) for n in range(50)]


def test_outputs_leave_while_another_member_holds_the_rebalance_up(app: App) -> None:
    """The other member has heard of the rebalance and does not join, as a slow Java application would."""
    app.send(BEFORE)
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    with raw_member(app.broker, app.name, app.name, subscriptions(app.name)["empty"]) as slow:
        until(lambda: bool(slow.poll() or slow.user_data or worker.error))
        worker.until_running(PARTITIONS)
        generations, joins = len(worker.reported(AssignedEvent)), len(worker.reported(JoiningEvent))
        worker.worker.rejoin("a test asks for it")
        worker.until(lambda _: len(worker.reported(JoiningEvent)) > joins)
        app.send(MEANWHILE)
        until(lambda: committed_outputs(app) == each_once(app))
        assert len(worker.reported(AssignedEvent)) == generations, "the rebalance was over before"
        until(lambda: bool(slow.poll() or len(worker.reported(AssignedEvent)) > generations))
    app.until_committed()
    app.until_counted()
    assert committed_outputs(app) == each_once(app)
    assert not worker.reported(LostEvent)
    assert not worker.reported(TaskFailedEvent)
