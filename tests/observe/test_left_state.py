"""State that a task has left behind in a process: it counts until the process has deleted it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.model import TaskId
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.cluster import CLEANUP_DELAY_MS, ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.group_state import state_of_group
from kstreams_assign.observe.snapshot import GroupSnapshot
from kstreams_assign.observe.what_if import predict
from tests.observe.seen_group import SeenGroup, settled

FIRST, SECOND = UUID(int=1), UUID(int=2)


def handed_over() -> SeenGroup:
    """The first process has handed half of its tasks to the second, and has their state on its disk."""
    group = settled(members=1)
    group.add(2)
    group.settle()
    return group


def seen(group: SeenGroup, snapshot: GroupSnapshot) -> ObservedGroup:
    return replace(group.observed(), decoded=decode_group(snapshot))


@pytest.mark.parametrize(
    ("age_ms", "cold", "counts"),
    [
        (None, 0, "still there"),
        (0, 0, "still there"),
        (CLEANUP_DELAY_MS, 0, "still there"),
        (CLEANUP_DELAY_MS + 1, 3, "deleted"),
    ],
)
def test_the_state_of_revoked_tasks_counts_for_the_cleanup_delay(age_ms: int | None, cold: int, counts: str) -> None:
    group = handed_over()
    taken = group.snapshot()
    observed = seen(group, replace(taken, assigned_ms=None if age_ms is None else taken.taken_ms - age_ms))
    moved = observed.decoded.processes[1].active
    assert len(moved) == 3
    assert describe(observed).restores[SECOND] == (tuple(sorted(moved)) if cold else ())
    outcome = predict(state_of_group(observed), Alternative(remove=(SECOND,)))
    assert (outcome.adopted, outcome.cold) == (3, cold)
    reported = observed.cluster_at_next_join().clients[0].lags
    assert [task for task in sorted(moved) if reported[task] == 0] == ([] if cold else sorted(moved))
    assert observed.assumed["state of revoked tasks"].startswith(f"{counts}: a process keeps it for 600,000 ms")


def test_nothing_is_assumed_deleted_of_a_process_whose_tasks_are_not_known() -> None:
    group = handed_over()
    taken = group.snapshot()
    unread = (replace(taken.members[0], assignment=b"\0"), *taken.members[1:])
    old = seen(group, replace(taken, assigned_ms=taken.taken_ms - CLEANUP_DELAY_MS - 1, members=unread))
    first, second = old.decoded.processes
    assert old.deleted_state(first) == frozenset()
    assert old.deleted_state(second) == frozenset(second.offset_sums) - second.active
    assert old.decoded.unreadable.keys() == {"member-1"}


def test_no_state_is_assumed_where_each_process_has_its_tasks() -> None:
    group = settled(members=1)
    assert "state of revoked tasks" not in group.observed().assumed
    assert TaskId(0, 0) in group.observed().decoded.processes[0].active
