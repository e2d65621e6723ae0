"""A pause of input after a move: every task that waited over ten minutes for its commit is written without a gap."""

from __future__ import annotations

from random import Random

import pytest

from tests.history import groups, streams_coordinator
from tests.history.groups import A_SECOND, JAVA, P1, P2, TEN_MINUTES, RecordedGroup, group, rows
from tests.history.streams_coordinator import TASKS, A, B, Coordinator

each_wait = pytest.mark.parametrize(
    ("after_ms", "is_gap"), [(TEN_MINUTES, True), (TEN_MINUTES + 1, False)], ids=["ten minutes", "longer"]
)


@each_wait
def test_all_tasks_that_commit_together_after_a_pause_have_a_gap_or_none_has(after_ms, is_gap):
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=2), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=A_SECOND)
    recorded.commit(after_ms=after_ms)
    gap_ms = A_SECOND + after_ms if is_gap else None
    found = groups.derived(recorded.records())
    assert [(row["task"], row["gap_ms"]) for row in rows(found, "movements")] == [("0_0", gap_ms), ("0_1", gap_ms)]


@each_wait
def test_all_tasks_of_a_streams_group_that_commit_together_after_a_pause_have_a_gap_or_none_has(after_ms, is_gap):
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    coordinator.commit(first)
    coordinator.wait(A_SECOND)
    coordinator.remove(first)
    second = coordinator.join(B)  # has all tasks with its first heartbeat, at once
    coordinator.wait(after_ms)
    coordinator.commit(second)
    coordinator.settle()
    gap_ms = A_SECOND + after_ms if is_gap else None
    found = rows(streams_coordinator.derived(coordinator.records), "movements")
    assert [(row["task"], row["gap_ms"]) for row in found] == [(f"{name}_{number}", gap_ms) for name, number in TASKS]
