"""Offsets that an operator sets while a group has no members are no process's commits."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.history.played import PlayedCommit
from kstreams_assign.model import TopicPartition
from tests.history.groups import JAVA, OURS, P1, P2, RecordedGroup, derived, group, rows
from tests.history.streams_coordinator import STATEFUL, TASKS, A, B, Coordinator
from tests.history.streams_coordinator import derived as streams_derived

HALF_AN_HOUR_MS = 1_800_000
OUTAGE_MS = 1_000 + HALF_AN_HOUR_MS + 500


def emptied(kind, reset_partitions):
    """A process commits, stops a second later, and another starts after an outage, in which offsets are set."""
    recorded = RecordedGroup(group(kind, partitions=2, stateless=False), kind)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit()
    recorded.commit(30_000)
    recorded.played.stop(P1)
    recorded.rebalance(1_000)
    recorded.played.wait(HALF_AN_HOUR_MS - 60_000)
    recorded.events += [PlayedCommit(recorded.played.now_ms, TopicPartition("orders", n)) for n in reset_partitions]
    recorded.start(P2)
    recorded.rebalance(60_000)
    recorded.commit(500)
    return recorded


@pytest.mark.parametrize("kind", [OURS, JAVA], ids=["ours", "java"])
@pytest.mark.parametrize("reset_partitions", [(), (0,), (0, 1)], ids=str)
def test_the_gap_of_an_outage_reaches_back_behind_the_offsets_that_an_operator_set(kind, reset_partitions):
    tables = derived(emptied(kind, reset_partitions).records())
    assert [(row["task"], row["gap_ms"]) for row in rows(tables, "movements")] == [
        ("0_0", OUTAGE_MS),
        ("0_1", OUTAGE_MS),
    ]
    (commits,) = (row["records"] for row in rows(tables, "counts") if row["kind"] == "offset_commit")
    assert commits == 6 + len(reset_partitions)


def test_offsets_that_an_operator_set_complete_no_movement():
    recorded = RecordedGroup(group(JAVA, partitions=1, stateless=False), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance()
    recorded.played.stop(P2)
    recorded.rebalance()
    recorded.played.wait(1_000)
    recorded.events.append(PlayedCommit(recorded.played.now_ms, TopicPartition("orders", 0)))
    assert recorded.rows("movements") == []
    recorded.rebalance(700_000)
    assert [row["gap_ms"] for row in recorded.rows("movements")] == [None]


@pytest.mark.parametrize("reset_tasks", [(), ((STATEFUL, 0),), TASKS], ids=["none", "one", "all"])
def test_the_gap_of_a_streams_group_reaches_back_behind_them_too(reset_tasks):
    coordinator = Coordinator(Random(1))
    first = coordinator.join(A)
    coordinator.settle()
    coordinator.commit(first)
    coordinator.wait(30_000)
    coordinator.commit(first)
    committed_ms = coordinator.now_ms
    coordinator.wait(1_000)
    coordinator.remove(first)
    coordinator.wait(HALF_AN_HOUR_MS)
    coordinator.set_offsets(reset_tasks)
    second = coordinator.join(B)
    coordinator.settle()
    coordinator.wait(500)
    coordinator.commit(second)
    moved = rows(streams_derived(coordinator.records), "movements")
    assert len(moved) == len(TASKS)
    assert {row["gap_ms"] for row in moved} == {coordinator.now_ms - committed_ms}
