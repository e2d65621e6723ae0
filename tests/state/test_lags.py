"""The table of what this process would report, against a slow twin, and Java's arithmetic at the edges."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.errors import StoreDamaged
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.state.lags import OFFSET_SUM_MAX, OffsetSums, offset_sum, sums_at_start

A, B = TopicPartition("app-a-changelog", 0), TopicPartition("app-b-changelog", 0)
TASKS = [TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(0, 0, "named")]


def test_a_sum_is_the_sum_of_next_offsets_pinned_where_java_overflows():
    assert offset_sum([]) == 0
    assert offset_sum([3, 4]) == 7
    assert offset_sum([OFFSET_SUM_MAX, 0]) == OFFSET_SUM_MAX
    assert offset_sum([OFFSET_SUM_MAX, 1]) == OFFSET_SUM_MAX


@pytest.mark.parametrize("offsets", [[-1], [5, -2], [OFFSET_SUM_MAX, 1, -5]])
def test_a_negative_offset_is_damage_wherever_it_stands(offsets):
    with pytest.raises(StoreDamaged, match="must be at least 0"):
        offset_sum(offsets)


def test_each_kind_of_task_is_reported_as_the_leader_reads_it():
    sums = OffsetSums()
    sums.running(TASKS[0])
    sums.restoring(TASKS[1], {A: 3, B: 4})
    sums.dormant(TASKS[2], {A: 10})
    assert sums.report(owned_only=False) == {TASKS[0]: RUNNING_OFFSET_SUM, TASKS[1]: 7, TASKS[2]: 10}
    assert sums.report(owned_only=True) == {TASKS[0]: RUNNING_OFFSET_SUM, TASKS[1]: 7}


def test_without_the_mutex_only_owned_and_assigned_tasks_are_reported():
    sums = OffsetSums()
    sums.running(TASKS[0])
    sums.restoring(TASKS[1], {A: 3})
    sums.dormant(TASKS[2], {A: 10})
    assert sums.report_kept(frozenset(TASKS)) == {TASKS[0]: RUNNING_OFFSET_SUM, TASKS[1]: 3}
    assert sums.report_kept(frozenset(TASKS[1:])) == {TASKS[1]: 3}, "the first is being closed"
    assert sums.report_kept(frozenset()) == {}


def test_a_standby_at_the_first_offset_is_reported_but_a_dormant_task_without_offsets_is_not():
    sums = OffsetSums()
    sums.restoring(TASKS[0], {A: 0})
    sums.running(TASKS[1])
    sums.dormant(TASKS[1], {})
    assert sums.report(owned_only=False) == {TASKS[0]: 0}


def test_damage_leaves_the_line_as_it_was():
    sums = OffsetSums()
    sums.restoring(TASKS[0], {A: 3})
    for change in (sums.restoring, sums.dormant):
        with pytest.raises(StoreDamaged):
            change(TASKS[0], {A: -1})
    assert sums.report(owned_only=True) == {TASKS[0]: 3}


def test_a_report_is_a_snapshot_in_order_also_with_named_topologies():
    sums = OffsetSums()
    for task in reversed(TASKS):
        sums.running(task)
    report = sums.report(owned_only=True)
    sums.forget(TASKS[0])
    assert list(report) == TASKS


def test_only_dormant_tasks_with_deleted_state_are_forgotten():
    sums = OffsetSums()
    sums.running(TASKS[0])
    sums.restoring(TASKS[1], {A: 3})
    sums.dormant(TASKS[2], {A: 10})
    sums.dormant(TASKS[3], {A: 11})
    sums.forget_missing(lambda task: task == TASKS[3])
    assert sums.report(owned_only=False) == {TASKS[0]: RUNNING_OFFSET_SUM, TASKS[1]: 3, TASKS[3]: 11}


def test_a_task_that_is_opened_or_closed_while_its_folder_is_looked_for_keeps_its_new_line():
    sums = OffsetSums()
    for task in TASKS:
        sums.dormant(task, {A: 10})
    meanwhile = {
        TASKS[0]: lambda: sums.running(TASKS[0]),
        TASKS[1]: lambda: sums.restoring(TASKS[1], {A: 0}),
        TASKS[2]: lambda: sums.dormant(TASKS[2], {A: 10}),
        TASKS[3]: lambda: sums.forget(TASKS[3]),
    }

    def is_there(task):
        meanwhile[task]()
        return False

    sums.forget_missing(is_there)
    assert sums.report(owned_only=False) == {TASKS[0]: RUNNING_OFFSET_SUM, TASKS[1]: 0, TASKS[2]: 10}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["running", "restoring", "dormant", "forget"]), st.sampled_from(TASKS), st.integers(0, 99)
        )
    )
)
def test_the_table_is_the_last_word_on_each_task(words):
    sums = OffsetSums()
    for word, task, offset in words:
        match word:
            case "restoring" | "dormant":
                getattr(sums, word)(task, {A: offset})
            case _:
                getattr(sums, word)(task)
    last = {task: (word, offset) for word, task, offset in words}
    said = {t: RUNNING_OFFSET_SUM if word == "running" else n for t, (word, n) in last.items() if word != "forget"}
    assert sums.report(owned_only=False) == said
    assert sums.report(owned_only=True) == {t: n for t, n in said.items() if last[t][0] != "dormant"}


def test_at_the_start_everything_on_disk_is_dormant_and_what_is_damaged_is_left_out(opened, make_state, caplog):
    directory = opened()
    make_state(directory, "0_0", "0_1", "1_0")

    def read_offsets(task, path):
        assert path == directory.task_path(task)
        if task == TASKS[1]:
            raise StoreDamaged("torn")
        return {A: 5} if task == TASKS[0] else {}

    sums = sums_at_start(directory, read_offsets)
    assert sums.report(owned_only=False) == {TASKS[0]: 5}
    assert sums.report(owned_only=True) == {}
    assert "0_1" in caplog.text
