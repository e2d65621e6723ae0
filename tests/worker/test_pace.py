"""What is reported of a restore under way, and when it is worth an event."""

from __future__ import annotations

from kstreams_assign.events import RestorePace, RestoringEvent
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.worker.pace import LONG_MS, REPORT_INTERVAL_MS, LongRestores, paces

T0, T1 = TaskId(0, 0), TaskId(0, 1)
P0 = TopicPartition("app-s-changelog", 0)


def restoring(end: int = 100_000) -> TaskProgress:
    """10,000 offsets in the first second."""
    return TaskProgress.begin({P0: 0}, {P0: end}, 0).advanced(P0, 10_000, 1_000)


def test_a_status_reports_rate_and_time_left_of_unfinished_restores():
    finished = TaskProgress.begin({P0: 5}, {P0: 5}, 0)
    pace_by_task = paces({T1: finished, T0: restoring()}, 1_000)
    assert pace_by_task == {"0_0": RestorePace(remaining=90_000, offsets_per_s=10_000, left_ms=9_000)}


def test_a_restore_that_stands_still_has_grown_slower():
    assert paces({T0: restoring()}, 4_000)["0_0"] == RestorePace(remaining=90_000, offsets_per_s=2_500, left_ms=36_000)


def test_a_restore_that_just_began_has_no_rate():
    begun = TaskProgress.begin({P0: 0}, {P0: 9}, 0)
    assert paces({T0: begun}, 0)["0_0"] == RestorePace(remaining=9, offsets_per_s=None, left_ms=None)


def test_one_event_for_all_comes_once_a_restore_takes_long_and_again_at_intervals():
    restores = LongRestores(1_000)
    both = {T0: restoring(), T1: restoring(200_000)}
    times = range(0, LONG_MS + 2 * REPORT_INTERVAL_MS + 1, 1_000)
    event_by_time = {at: event for at in times if (event := restores.due(paces(both, at), at))}
    assert list(event_by_time) == [LONG_MS, LONG_MS + REPORT_INTERVAL_MS, LONG_MS + 2 * REPORT_INTERVAL_MS]
    assert event_by_time[LONG_MS] == RestoringEvent(
        tasks=("0_0", "0_1"), remaining=280_000, offsets_per_s=4_000, left_s=95
    )


def test_a_copy_that_follows_and_a_short_restore_are_worth_no_event():
    restores = LongRestores(90_000)
    assert not any(restores.due(paces({T0: restoring()}, at), at) for at in range(0, 60_000, 1_000))
    restores = LongRestores(0)
    assert restores.due(paces({T0: restoring()}, 0), 0) is None
    assert restores.due(paces({}, LONG_MS), LONG_MS) is None
    assert restores.due(paces({T0: restoring()}, LONG_MS + 1), LONG_MS + 1) is None
