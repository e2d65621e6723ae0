"""The warm-up queue: all warm-ups are assigned at once, restored a few at a time, and handed over by one rebalance."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.leader import share_out
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import TaskId
from tests.group.little_group import LittleGroup, shape

NEWCOMER = 11


def grown(*, queue: bool, assignor: str) -> LittleGroup:
    """Ten members with 200 tasks at rest; then another member joins."""
    little = LittleGroup(shape(), {"orders": 200}, AssignConfig(), assignor)
    for number in range(1, NEWCOMER):
        little.add(number)
    little.settle()
    little.warmup_queue = queue
    little.add(NEWCOMER)
    return little


def test_growing_from_10_to_11_members_takes_2_rounds_with_the_queue_and_10_without():
    rounds = {}
    for queue in (True, False):
        decisions = grown(queue=queue, assignor="least_movement").settle()
        kept = [decision for decision in decisions if decision.kind == "round"]
        rounds[queue] = len(kept), sum(len(decision.changed) for decision in kept)
    assert rounds == {True: (2, 18), False: (10, 18)}


def test_a_member_receives_the_order_and_the_number_at_a_time():
    little = grown(queue=True, assignor="least_movement")
    little.members[UUID(int=NEWCOMER)].positions = {TaskId(0, 199): 30_000, TaskId(0, 198): 20_000}
    little.rebalance()
    adopted = little.members[UUID(int=NEWCOMER)].adopted
    assert adopted is not None
    assert isinstance(adopted.queue, WarmupQueue)
    assert adopted.queue.at_once == 2
    assert set(adopted.queue.order) == adopted.warmup
    assert adopted.queue.order[:2] == (TaskId(0, 199), TaskId(0, 198)), "the least to restore comes first"
    assert len(adopted.warmup) == 18
    assert all(m.adopted and m.adopted.queue is None for m in little.members.values() if m.process.int != NEWCOMER)


def test_a_group_with_foreign_members_has_no_queue():
    little = grown(queue=True, assignor="high_availability")
    little.members[UUID(int=1)].ours = False
    decision = little.rebalance()
    assert sum(len(placed.warmup) for placed in decision.placements.values()) == 2


@pytest.mark.parametrize(
    ("limit", "processes", "shares"), [(2, 1, [2]), (5, 2, [3, 2]), (2, 3, [1, 1, 1]), (1, 1, [1]), (4, 0, [])]
)
def test_the_groups_limit_is_shared_and_each_process_gets_at_least_1(limit, processes, shares):
    assert list(share_out(limit, [UUID(int=number) for number in range(processes)]).values()) == shares
