"""Predictions for a streams group contain what a coordinator does, whatever part of its past is not visible.

The twin is a whole coordinator with its table of members: it serves joins one by one, at once or in its interval.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import pytest

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.assign.streams_group import (
    StreamsGroupInput,
    predict_join,
    predict_joiners,
    predict_leave,
    predict_standbys,
)
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from tests.assign.streams_coordinator import Coordinator
from tests.peer.streams_problems import member_id
from tests.samples import examples


def grown(random, members_max=14):
    """Return a coordinator after a random past."""
    subtopologies = {
        number: SubtopologyTasks(random.randint(1, 8), is_stateful=random.random() < 0.7)
        for number in range(random.randint(1, 3))
    }
    coordinator = Coordinator(subtopologies, random.choice([0, 1, 2]))
    processes = [f"process-{random.randrange(10**6)}" for _ in range(4)]
    for _ in range(random.randint(1, members_max)):
        coordinator.join(StreamsMember(member_id(random), random.choice(processes)), is_served=random.random() < 0.7)
        if len(coordinator.members) > 2 and random.random() < 0.3:
            coordinator.leave(random.choice(list(coordinator.members)))
    coordinator.assign()
    return coordinator


def newcomers(random, process, count):
    return [StreamsMember(f"{member_id(random)}-{n}", process) for n in range(count)]


@pytest.mark.parametrize("served", [(True,), (False,), (True, False, False), (False, False, True), (True, True, True)])
def test_what_the_coordinator_assigns_at_a_join_was_predicted(served):
    random, rounds = Random(str(served)), examples(120)
    certain = 0
    for _ in range(rounds):
        coordinator = grown(random)
        joining = newcomers(random, f"new-{random.randrange(10**6)}", len(served))
        predicted = predict_join(coordinator.described(), joining)
        for member, is_served in zip(joining, served, strict=True):
            coordinator.join(member, is_served=is_served)
        if not served[-1]:
            coordinator.assign()
        assert coordinator.target() in predicted.targets
        certain += predicted.is_certain
    assert certain / rounds > (0.75 if len(served) == 1 else 0.125)


@pytest.mark.parametrize("singly", [True, False])
def test_what_the_coordinator_assigns_at_a_leave_was_predicted(singly):
    random = Random(8)
    for _ in range(examples(100)):
        coordinator = grown(random)
        gone = random.choice(list(coordinator.members.values())).process_id
        leaving = [name for name, member in coordinator.members.items() if member.process_id == gone]
        predicted = predict_leave(coordinator.described(), leaving)
        for name in leaving:
            coordinator.leave(name)
            if coordinator.members and (singly or name == leaving[-1]):
                coordinator.assign()
        assert coordinator.target() in predicted.targets


def test_new_standbys_are_predicted():
    random = Random(9)
    for _ in range(50):
        coordinator = grown(random)
        predicted = predict_standbys(coordinator.described(), 2)
        coordinator.standbys = 2
        coordinator.assign()
        assert predicted.targets == (coordinator.target(),)


def two_members():
    tasks = frozenset(TaskId(0, n) for n in range(4))
    members = (StreamsMember("a", "pa", tasks), StreamsMember("b", "pb"))
    return StreamsGroupInput(members, {0: SubtopologyTasks(4, is_stateful=True)})


NEWCOMER = StreamsMember("c", "pc")


def test_a_process_gets_its_share_and_no_standby_of_its_own_tasks():
    (target,) = predict_joiners(two_members(), [NEWCOMER], is_interval_open=False)
    assert len(target["c"].active) == 1
    (target,) = predict_joiners(replace(two_members(), num_standby_replicas=1), [NEWCOMER], is_interval_open=False)
    assert target["c"].standby
    assert not target["c"].standby & target["c"].active


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("is_interval_open", [False, True])
def test_processes_that_join_in_quick_succession_get_what_the_coordinator_gives_them(count, is_interval_open):
    random = Random(6)
    for _ in range(30):
        coordinator = grown(random)
        joining = [StreamsMember(member_id(random), f"p{number}") for number in range(count)]
        targets = predict_joiners(coordinator.described(), joining, is_interval_open=is_interval_open)
        coordinator.join(joining[0], is_served=not is_interval_open)
        if not is_interval_open:
            assert targets[0] == coordinator.target()
        for member in joining[1:]:
            coordinator.join(member, is_served=False)
        if count > 1 or is_interval_open:
            coordinator.assign()
        assert targets[-1] == coordinator.target()
        assert len(targets) == 1 + (count > 1 and not is_interval_open)


def test_several_threads_may_get_different_tasks_by_when_they_come():
    """Nine tasks, four members: how they are shared out depends on who is assigned together."""
    random = Random(4)
    predictions = [
        predict_join(grown(random).described(), [StreamsMember(f"{member_id(random)}-{n}", "new") for n in range(3)])
        for _ in range(examples(60))
    ]
    assert not all(prediction.is_certain for prediction in predictions)


def test_the_first_process_gets_everything():
    group = replace(two_members(), members=())
    target = predict_join(group, [StreamsMember("m1", "p"), StreamsMember("m2", "p")]).likely
    assert target["m1"].active | target["m2"].active == {TaskId(0, n) for n in range(4)}


def test_an_order_that_no_table_has_makes_a_guess_of_both_ways():
    group = two_members()
    turned = replace(group, members=group.members[::-1])
    for each in (group, turned):
        assert len(predict_join(each, [NEWCOMER]).likely["c"].active) == 1


def test_the_last_member_to_leave_leaves_nothing():
    assert predict_leave(two_members(), ["a", "b"]).likely == {}


def test_wrong_members_are_refused():
    group = two_members()
    for predict in (predict_join, partial(predict_joiners, is_interval_open=False)):
        with pytest.raises(ConfigError, match="member_ids is empty"):
            predict(group, [])
        with pytest.raises(ConfigError, match="member a is in the streams group already"):
            predict(group, [StreamsMember("a", "p")])
        with pytest.raises(ConfigError, match="member c is in the streams group already"):
            predict(group, [NEWCOMER, NEWCOMER])
    with pytest.raises(ConfigError, match="member c has tasks"):
        predict_join(group, [StreamsMember("c", "p", frozenset({TaskId(0, 0)}))])
    with pytest.raises(ConfigError, match="member x is not in the streams group"):
        predict_leave(group, ["x"])
