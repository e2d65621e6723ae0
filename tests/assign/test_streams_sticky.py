"""The broker's assignor keeps what its rules promise. That it equals Kafka's class is tested in ``tests/peer``."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from random import Random

import pytest

from kstreams_assign.assign import StreamsMember, SubtopologyTasks, assign_streams_tasks
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from tests.peer.golden_lines import ours
from tests.peer.streams_problems import streams_group_problem

STATEFUL = {0: SubtopologyTasks(6, is_stateful=True)}


def test_each_task_runs_once_and_no_process_has_two_replicas_of_a_task():
    random = Random(3)
    for _ in range(60):
        problem = streams_group_problem(random)
        target = ours("assign-streams-group", problem)["members"]
        tasks = [f"{name}_{n}" for name, each in problem["subtopologies"].items() for n in range(each["tasks"])]
        assert sorted(chain.from_iterable(each["active"] for each in target.values())) == sorted(tasks)
        process_of = {member["member_id"]: member["process_id"] for member in problem["members"]}
        replicas = Counter(
            (process_of[name], task) for name, each in target.items() for task in each["active"] + each["standby"]
        )
        assert max(replicas.values()) == 1
        wanted = min(problem["num_standby_replicas"], len(set(process_of.values())) - 1)
        stateful = [task for task in tasks if problem["subtopologies"][task.split("_")[0]]["stateful"]]
        standbys = Counter(chain.from_iterable(each["standby"] for each in target.values()))
        assert standbys == Counter(dict.fromkeys(stateful, wanted) if wanted else {})


def test_a_second_process_gets_half_and_what_stays_does_not_move():
    first = StreamsMember("a", "process-a", frozenset(TaskId(0, n) for n in range(6)))
    target = assign_streams_tasks([first, StreamsMember("b", "process-b")], STATEFUL, 0)
    assert len(target["a"].active) == len(target["b"].active) == 3
    assert target["a"].active < first.active


def test_the_former_owner_becomes_the_standby_where_there_is_room():
    """The share of three replicas a member leaves no room for more."""
    first = StreamsMember("a", "process-a", frozenset(TaskId(0, n) for n in range(6)))
    target = assign_streams_tasks([first, StreamsMember("b", "process-b")], STATEFUL, 1)
    assert target["a"].standby == target["b"].active
    assert target["b"].standby == target["a"].active


def test_a_standby_takes_over_from_an_owner_that_left():
    owner = StreamsMember("a", "process-a", frozenset({TaskId(0, 0)}), frozenset({TaskId(0, 1)}))
    other = StreamsMember("b", "process-b", frozenset({TaskId(0, 2)}))
    target = assign_streams_tasks([other, owner], {0: SubtopologyTasks(3, is_stateful=True)}, 1)
    assert target["a"].active == {TaskId(0, 0), TaskId(0, 1)}


def test_subtopology_ids_sort_as_strings():
    """Of one task each, the first two by id go to the two empty members; "10" comes before "2"."""
    subtopologies = {number: SubtopologyTasks(1, is_stateful=False) for number in (2, 10)}
    members = [StreamsMember("a", "p"), StreamsMember("b", "p")]
    first = assign_streams_tasks(members, subtopologies, 0)
    assert first["a"].active == {TaskId(10, 0)}
    assert first["b"].active == {TaskId(2, 0)}


def test_members_that_share_a_bucket_are_taken_in_their_order():
    """ "Aa" and "BB" have one hash, so only the order of insertion decides which gets the first task."""
    subtopologies = {0: SubtopologyTasks(1, is_stateful=True)}
    members = [StreamsMember("Aa", "p"), StreamsMember("BB", "p")]
    for order in (members, members[::-1]):
        target = assign_streams_tasks(order, subtopologies, 0)
        assert target[order[0].member_id].active == {TaskId(0, 0)}


def test_tasks_without_a_member_are_refused():
    with pytest.raises(ConfigError, match="task 0_0 cannot be assigned: the streams group has no members"):
        assign_streams_tasks([], STATEFUL, 0)
    assert assign_streams_tasks([], {}, 1) == {}
