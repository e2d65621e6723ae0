"""A member that is about to leave, as its leader sees it."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig
from tests.group.little_group import END, LittleGroup, shape


@pytest.mark.parametrize("assignor", ["least_movement", "high_availability"])
def test_its_tasks_move_as_they_warm_up_and_it_learns_that_the_leader_knows(assignor):
    little = LittleGroup(shape(stateless=True), {"orders": 9, "clicks": 3}, AssignConfig(), assignor)
    for number in (1, 2, 3):
        little.add(number)
    little.settle()
    leaving = little.members[UUID(int=3)]
    had, leaving.draining = len(leaving.running), True
    decisions = little.settle()
    assert leaving.adopted is not None
    assert leaving.adopted.draining
    assert not leaving.adopted.others_drain
    others = [member for member in little.members.values() if member is not leaving]
    assert all(member.adopted.others_drain and not member.adopted.draining for member in others)
    assert not leaving.running
    assert not leaving.adopted.standby | leaving.adopted.warmup
    assert decisions[0].owner_changes_lower_bound == had
    changed = [task for decision in decisions for task, (old, _) in decision.changed.items() if old == leaving.process]
    assert len(changed) == len(set(changed)) == had
    assert not any(member.adopted and member.adopted.active.keys() & set(changed) for member in [leaving])


def test_when_all_members_want_to_leave_none_is_drained():
    little = LittleGroup(shape(), {"orders": 4, "clicks": 0}, AssignConfig(), "least_movement")
    for number in (1, 2):
        little.add(number).draining = True
    little.rebalance()
    assert not any(member.adopted and member.adopted.draining for member in little.members.values())
    assert len(little.owners()) == 4


@pytest.mark.parametrize("assignor", ["least_movement", "high_availability"])
def test_if_another_process_dies_its_tasks_run_on_the_draining_one_until_the_heir_has_caught_up(assignor):
    little = LittleGroup(shape(), {"orders": 9}, AssignConfig(num_standby_replicas=1), assignor)
    leaving, dead, staying = (little.add(number) for number in (1, 2, 3))
    little.settle()
    leaving.draining = True
    while little.rebalance().withheld:
        pass
    lost = set(dead.running)
    little.remove(2)
    ends = {member.process: dict(member.positions) for member in (leaving, staying)}
    with_replica = {task for task in lost if ends[leaving.process].get(task) == END}
    assert with_replica
    little.rebalance()
    assert set(little.owners()) == {task for member in (leaving, staying) for task in member.running}
    assert not [task for task in lost & staying.running if ends[staying.process].get(task) != END]
    assert with_replica & leaving.running
    little.settle()
    assert not leaving.running
    assert len(staying.running) == 9
