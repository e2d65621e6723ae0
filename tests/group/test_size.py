"""The group's record: how large it becomes, what is left out of it, and the warnings."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import replace
from typing import Any, NoReturn
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.encode import owners_by_process, share
from kstreams_assign.group.size import FULL_SHARE, RECORD_BYTES_MAX, WARN_SHARE
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId
from kstreams_assign.wire import AssignmentInfo, GroupTrailer, encode_assignment, whole_trailer
from tests.group.little_group import END, LittleGroup, shape

MEMBERS, TASKS = 12, 48


def group(record_bytes_max: int = RECORD_BYTES_MAX) -> LittleGroup:
    """Return a settled group with one new member, which has warm-ups: the trailers contain something."""
    little = LittleGroup(
        shape(), {"orders": TASKS}, AssignConfig(num_standby_replicas=1), record_bytes_max=record_bytes_max
    )
    for number in range(1, MEMBERS + 1):
        little.add(number, f"host-{number}.orders.example:8080")
    little.settle()
    little.add(MEMBERS + 1, "newcomer.orders.example:8080")
    return little


def seen(little: LittleGroup) -> tuple[Adopted, tuple[str, ...]]:
    """Return what the new member reads, and the leader's warnings about the record's size."""
    decision = little.rebalance()
    newcomer = next(member for member in little.members.values() if member.endpoint.startswith("newcomer"))
    assert newcomer.adopted is not None
    return newcomer.adopted, tuple(w for w in decision.warnings if "one record of" in w)


@pytest.fixture(scope="module")
def whole() -> int:
    """Return the size of the record with nothing left out."""
    little = group()
    adopted, warnings = seen(little)
    assert adopted.warmup
    assert adopted.standby_hosts
    assert not warnings
    return little.record_bytes


def below(size: int, share: float) -> int:
    """Return the limit of which ``size`` is a little more than this share."""
    return int(size / share) - 1


@pytest.fixture(scope="module")
def own(whole: int) -> int:
    """Return the size of the record in which each trailer names its member's own tasks only."""
    little = group(below(whole, WARN_SHARE))
    assert not seen(little)[1]
    assert little.record_bytes < whole
    return little.record_bytes


def test_above_half_the_limit_each_trailer_names_its_members_own_tasks_only() -> None:
    little = group()
    little.add(MEMBERS + 2, "second.orders.example:8080")
    complete, little.record_bytes_max = deepcopy(little), below(whole_size(little), WARN_SHARE)
    for each in (complete, little):
        each.rebalance()
    leader, first, second, bystander = (UUID(int=number) for number in (1, MEMBERS + 1, MEMBERS + 2, 2))
    all_of_it = adopted_by(complete, bystander)
    assert all_of_it.warmups.keys() == {first, second}
    assert adopted_by(little, bystander) == replace(all_of_it, warmups={})
    assert adopted_by(little, leader) == adopted_by(complete, leader), "this process is likely to lead again"
    assert adopted_by(little, first) == replace(adopted_by(complete, first), warmups={first: all_of_it.warmups[first]})


def whole_size(little: LittleGroup) -> int:
    """Return how large the next record would be with nothing left out."""
    copied = deepcopy(little)
    copied.record_bytes_max = RECORD_BYTES_MAX
    copied.rebalance()
    return copied.record_bytes


def adopted_by(little: LittleGroup, process: UUID) -> Adopted:
    adopted = little.members[process].adopted
    assert adopted is not None
    return adopted


@pytest.mark.parametrize("leader_leaves", [False, True])
def test_tasks_that_were_withheld_come_although_only_the_leader_knew_all_of_them(leader_leaves: bool) -> None:
    little = group()
    newcomers = [little.members[UUID(int=MEMBERS + 1)], little.add(MEMBERS + 2, "second.orders.example:8080")]
    for newcomer in newcomers:  # warm already, so what moves to them moves now
        newcomer.positions = {TaskId(0, number): END for number in range(TASKS)}
    little.record_bytes_max = below(whole_size(little), WARN_SHARE)
    withheld = little.rebalance().withheld
    assert len(set(withheld.values())) == 2
    assert adopted_by(little, UUID(int=1)).promised == withheld
    for newcomer in newcomers:
        mine = {task: owner for task, owner in withheld.items() if owner == newcomer.process}
        assert adopted_by(little, newcomer.process).promised == mine
    if leader_leaves:
        little.remove(1)
    little.settle()
    assert len(little.owners()) == TASKS


def test_the_trailers_of_all_members_make_the_whole_again() -> None:
    processes = [UUID(int=number) for number in range(1, 5)]
    tasks = [TaskId(0, number) for number in range(12)]
    trailer = GroupTrailer(
        "least_movement",
        1,
        warmups={process: tuple(tasks[number::4]) for number, process in enumerate(processes[:3])},
        next_probe_ms=7,
        followup=True,
        withheld=tuple(tasks[:6]),
        owners=dict(zip(tasks[:6], processes * 2, strict=False)),
        at_once=dict.fromkeys(processes, 2),
        partitions=12,
        loads={task: 100 * task.partition for task in tasks},
    )
    owned = owners_by_process(trailer)
    shares = [
        share(trailer, process, tasks[number::4], owned.get(process, {})) for number, process in enumerate(processes)
    ]
    assert all(each != trailer for each in shares)
    assert [[*each.loads] for each in shares] == [tasks[number::4] for number in range(4)]
    assert whole_trailer(shares) == whole_trailer([trailer] * 3) == trailer
    assert whole_trailer([shares[3], trailer, *shares]) == trailer
    assert whole_trailer([]) is None


def slow_share(trailer: GroupTrailer, process: UUID, active: Collection[TaskId]) -> GroupTrailer:
    """Return what ``share`` returns, from all tasks of the group: its slow twin."""
    owners = {task: owner for task, owner in trailer.owners.items() if owner == process}
    return replace(
        trailer,
        warmups={process: trailer.warmups[process]} if process in trailer.warmups else {},
        at_once={process: trailer.at_once[process]} if process in trailer.at_once else {},
        withheld=tuple(owners),
        owners=owners,
        loads={task: load for task, load in trailer.loads.items() if task in active},
    )


PROCESSES = [UUID(int=number) for number in range(1, 5)]
a_task = st.builds(TaskId, st.integers(0, 2), st.integers(0, 9), st.none())
some_tasks = st.frozensets(a_task, max_size=20)


@given(
    withheld=st.lists(st.tuples(a_task, st.sampled_from(PROCESSES))),
    loads=st.dictionaries(a_task, st.integers(0, 10**6)),
    warmups=st.dictionaries(st.sampled_from(PROCESSES), some_tasks.map(tuple)),
    active=some_tasks,
)
def test_each_share_has_the_same_bytes_as_that_of_the_slow_twin(
    withheld: list[tuple[TaskId, UUID]],
    loads: dict[TaskId, int],
    warmups: dict[UUID, tuple[TaskId, ...]],
    active: frozenset[TaskId],
) -> None:
    owners = dict(withheld)
    trailer = GroupTrailer("least_movement", 1, warmups, withheld=tuple(owners), owners=owners, loads=loads)
    owned = owners_by_process(trailer)
    for process in PROCESSES:
        fast, slow = share(trailer, process, active, owned.get(process, {})), slow_share(trailer, process, active)
        assert fast == slow
        assert encoded(fast) == encoded(slow)


def encoded(trailer: GroupTrailer) -> bytes:
    return encode_assignment(AssignmentInfo(version=11, commonly_supported_version=11, trailer=trailer))


class NeverWalked(dict[Any, Any]):
    """A mapping of the whole group: a walk for each process would take time with the square of the group."""

    def items(self) -> NoReturn:
        raise AssertionError("each process's share walks the tasks of the whole group")

    __iter__ = keys = values = items


def test_a_share_reads_only_the_tasks_of_its_process() -> None:
    tasks = [TaskId(0, number) for number in range(8)]
    loads, owners = NeverWalked(dict.fromkeys(tasks, 5)), NeverWalked(dict.fromkeys(tasks, PROCESSES[1]))
    trailer = GroupTrailer("least_movement", 1, owners=owners, loads=loads)
    mine = share(trailer, PROCESSES[0], tasks[:2], {tasks[0]: PROCESSES[0]})
    assert (mine.loads, mine.withheld) == (dict.fromkeys(tasks[:2], 5), (tasks[0],))


def test_a_record_that_stays_above_half_the_limit_causes_a_warning(own: int) -> None:
    adopted, (warning,) = seen(group(below(own, WARN_SHARE)))
    assert adopted.warmup
    assert f"one record of {own:,} bytes" in warning
    assert warning.endswith("before the group grows")
    assert "set max.message.bytes of __consumer_offsets to" in warning


def test_near_the_limit_the_trailers_are_left_out_first(own: int) -> None:
    adopted, (warning,) = seen(group(below(own, FULL_SHARE)))
    assert adopted.assignor is None
    assert adopted.standby_hosts
    assert "the trailers are left out" in warning


def test_then_the_standbys_host_map_is_left_out_and_no_member_loses_a_task(whole: int) -> None:
    most = whole * 3 // 5
    little = group(most)
    adopted, (warning,) = seen(little)
    assert adopted.assignor is None
    assert not adopted.standby_hosts
    assert len(adopted.hosts) == MEMBERS + 1  # a Java member that does not find itself would rejoin for ever
    assert "host map are left out" in warning
    assert little.record_bytes <= most
    little.settle()  # withheld tasks are assigned nevertheless
    assert len(little.owners()) == TASKS


def test_a_record_that_is_still_too_large_is_reported_as_refused(whole: int, own: int) -> None:
    _, (warning,) = seen(group(whole // 10))
    assert "even without trailers and standby hosts" in warning
    assert f"to {1 << (2 * own - 1).bit_length():,} or more" in warning
