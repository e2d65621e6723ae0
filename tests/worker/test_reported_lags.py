"""Lags by the positions that a program reports: against a slow twin, and how often end offsets are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.worker.reported_lags import ENDS_INTERVAL_MS, ReportedLags, lags_of

TASKS = [TaskId(0, number) for number in range(4)]
FIRST, SECOND, THIRD, FOURTH = TASKS
OFFSETS = st.integers(0, 9)


@given(
    st.dictionaries(st.sampled_from(TASKS), OFFSETS | st.just(RUNNING_OFFSET_SUM)),
    st.dictionaries(st.sampled_from(TASKS), OFFSETS),
)
def test_a_lag_is_what_the_positions_lack_of_the_ends(sums: Mapping[TaskId, int], ends: Mapping[TaskId, int]) -> None:
    expected = {}
    for task in TASKS:
        if sums.get(task) == RUNNING_OFFSET_SUM:
            expected[task] = 0
        elif task in sums and task in ends:
            expected[task] = ends[task] - sums[task] if ends[task] > sums[task] else 0
    assert lags_of(sums, ends) == expected


class Brokers:
    """Changelogs that grow by ten offsets a question; ``known`` of their tasks are answered."""

    def __init__(self) -> None:
        self.now_ms = 5
        self.known = {FIRST, SECOND}
        self.questions: list[set[TaskId]] = []

    def ends(self, tasks: Iterable[TaskId]) -> Mapping[TaskId, int]:
        self.questions.append(set(tasks))
        return dict.fromkeys(self.known, 10 * len(self.questions))


def at(task: TaskId, offset: int) -> Mapping[TopicPartition, int]:
    return {TopicPartition("app-totals-changelog", task.partition): offset}


def test_ends_are_asked_for_once_an_interval_and_only_of_tasks_that_are_behind() -> None:
    brokers, sums = Brokers(), OffsetSums()
    lags = ReportedLags(sums, brokers.ends, lambda: brokers.now_ms)
    assert lags() == {}
    sums.running(FIRST)
    sums.dormant(FOURTH, at(FOURTH, 3))
    assert lags() == {FIRST: 0}
    assert not brokers.questions
    sums.restoring(SECOND, at(SECOND, 4))
    sums.restoring(THIRD, at(THIRD, 4))
    assert lags() == {FIRST: 0, SECOND: 6}, "the third one's end is not known, the fourth is not held"
    sums.restoring(SECOND, at(SECOND, 10))
    brokers.now_ms += ENDS_INTERVAL_MS - 1
    assert lags() == {FIRST: 0, SECOND: 0}
    brokers.now_ms += 1
    assert lags() == {FIRST: 0, SECOND: 10}
    assert brokers.questions == [{SECOND, THIRD}] * 2


def test_after_a_failed_look_up_no_lag_is_known_until_the_next() -> None:
    brokers, sums = Brokers(), OffsetSums()
    lags = ReportedLags(sums, brokers.ends, lambda: brokers.now_ms)
    sums.restoring(FIRST, at(FIRST, 1))
    assert lags() == {FIRST: 9}
    brokers.known = set()
    brokers.now_ms += ENDS_INTERVAL_MS
    assert lags() == {}
