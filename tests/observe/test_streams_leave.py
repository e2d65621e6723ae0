"""Who gets the tasks of members that leave a streams group, from the brokers' description."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.group.streams_outlook import LeaveOutlook, Newcomer
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_join import KNOWN, NO_OWNER, NotAssigned, outlook
from kstreams_assign.observe.streams_leave import ALONE, NOT_THERE, leave_outlook
from tests.observe.random_streams_groups import described, grown
from tests.observe.test_streams_reasons import ALL, LOG, member, snapshot, tasks

OTHERS = tasks(*ALL[1:])
GROUP = snapshot(
    member("a", tasks("0_0"), tasks("0_0")),
    member("b", tasks("0_1", "1_0"), tasks("0_1", "1_0")),
    member("c", tasks("1_1", "1_2"), tasks("1_1", "1_2")),
    ends=dict.fromkeys(LOG, 1_010),
)


def test_the_tasks_with_state_are_named_by_the_members_that_get_them() -> None:
    outlook, offsets = leave_outlook(GROUP, "c-id")
    assert outlook.at_once is None
    gained = {task for tasks_of in outlook.state.values() for task in tasks_of}
    assert gained == {TaskId(1, 1), TaskId(1, 2)}
    assert outlook.state.keys() <= {"a-id", "b-id"}
    assert {offsets[task] for task in gained} == {1_000}


def test_members_that_leave_together_get_nothing_of_each_other() -> None:
    outlook, _ = leave_outlook(GROUP, "c-id", others={"b-id", "one that has left"})
    assert outlook.state == {"a-id": frozenset({TaskId(1, 0), TaskId(1, 1), TaskId(1, 2)})}


def test_a_subtopology_that_the_topology_lacks_does_not_fail_the_outlook() -> None:
    group = snapshot(
        member("a", tasks("0_0", "0_1", "7_0"), tasks("0_0", "0_1", "7_0")),
        member("b", tasks("1_0", "1_1", "1_2"), tasks("1_0", "1_1", "1_2")),
    )
    assert leave_outlook(group, "b-id")[0].state == {"a-id": frozenset(TaskId(1, number) for number in range(3))}
    assert outlook(group, Newcomer("c-id", "process-c"))[0].at_once is None


def test_what_a_newcomer_gets_is_not_known_until_the_tasks_of_one_that_has_left_are_assigned() -> None:
    newcomer, rest = (
        Newcomer("c-id", "process-c"),
        [member("a", tasks("0_0"), tasks("0_0")), member("b", OTHERS, OTHERS)],
    )
    assert outlook(snapshot(*rest, group_epoch=8), newcomer)[0].at_once is None, "each task has its owner"
    with pytest.raises(NotAssigned):
        outlook(snapshot(rest[0], group_epoch=8), newcomer)
    assert outlook(snapshot(rest[0]), newcomer)[0].at_once == NO_OWNER, "they were assigned, and none got it"
    unassigned = snapshot(member("a", tasks(), tasks()), group_epoch=8)
    assert outlook(unassigned, newcomer)[0].at_once == NO_OWNER, "the group has just begun"
    assert outlook(snapshot(rest[0], group_epoch=8), Newcomer("a-id", "process-a"))[0].at_once == KNOWN


def test_there_may_be_nothing_to_wait_for() -> None:
    alone = snapshot(member("a", tasks(*ALL), tasks(*ALL)))
    assert leave_outlook(alone, "a-id")[0].at_once == ALONE
    assert leave_outlook(GROUP, "a-id", others={"b-id", "c-id"})[0].at_once == ALONE
    assert leave_outlook(GROUP, "a-id")[0] == LeaveOutlook(), "its task has no state"
    assert leave_outlook(GROUP, "d-id")[0].at_once == NOT_THERE
    assert leave_outlook(None, "a-id")[0].at_once == NOT_THERE


def test_what_was_predicted_is_what_the_coordinator_assigns() -> None:
    random, came = Random(11), 0
    for _ in range(80):
        coordinator = grown(random)
        if len(coordinator.members) < 2:
            continue
        leaver = random.choice(sorted(coordinator.members))
        before = {name: member.active for name, member in coordinator.members.items()}
        outlook, _ = leave_outlook(described(coordinator, is_readable=True), leaver)
        coordinator.leave(leaver)
        coordinator.assign()
        gains = {
            name: frozenset(
                task for task in member.active - before[name] if coordinator.subtopologies[task.subtopology].is_stateful
            )
            for name, member in coordinator.members.items()
        }
        assert outlook.state == {name: tasks_of for name, tasks_of in gains.items() if tasks_of}
        came += sum(map(len, gains.values()))
    assert came > 80
