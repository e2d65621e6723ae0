"""Consumed records are deleted for tasks that run here: those of others may be of a topic that was created again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kstreams_assign import TopicPartition
from kstreams_assign.errors import StoreDamaged
from kstreams_assign.testing.around import NoDeletions
from tests.worker.loop_in_memory import COMMIT_INTERVAL_MS, Room, source, task_of

INTERVAL_MS = 30_000


class Requests(NoDeletions):
    """Keeps what the brokers are asked to delete."""

    def __init__(self) -> None:
        self.asked: list[Mapping[TopicPartition, int]] = []

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.asked.append(dict(offsets))


class Purged(Room):
    """Two tasks that have committed five records each, none of which is deleted yet."""

    def __init__(self, *, exactly_once: bool) -> None:
        self.requests = Requests()
        super().__init__(exactly_once=exactly_once, deletions=self.requests)
        self.adopt(1, (0, 1))
        self.put(0, 5)
        self.put(1, 5)
        self.turn(6, after_ms=COMMIT_INTERVAL_MS)
        assert (self.committed(0), self.committed(1), self.requests.asked) == (5, 5, [])

    def leave(self) -> None:
        """Let the first task leave."""
        self.adopt(2, (1,))
        self.turn(3, after_ms=COMMIT_INTERVAL_MS)

    def asked(self) -> list[Mapping[TopicPartition, int]]:
        """Let an interval pass; return the requests so far."""
        self.turn(after_ms=INTERVAL_MS)
        return self.requests.asked


@pytest.fixture(params=[False, True], ids=["at_least_once", "exactly_once_v2"])
def room(request: pytest.FixtureRequest) -> Purged:
    return Purged(exactly_once=request.param)


def test_what_running_tasks_have_committed_is_deleted(room: Purged) -> None:
    assert room.asked() == [{source(0): 5, source(1): 5}]


def test_a_task_that_has_left_leaves_the_deletion_to_its_next_owner(room: Purged) -> None:
    room.put(0, 1)
    room.turn()
    room.leave()
    assert room.committed(0) == 6
    assert room.asked() == [{source(1): 5}]


def test_a_commit_that_ends_after_a_task_has_stopped_deletes_nothing_of_it(room: Purged) -> None:
    room.put(0, 1)
    room.producer.holds = True
    room.turn(3, after_ms=COMMIT_INTERVAL_MS)
    room.loop.broken(task_of(0), StoreDamaged("spoilt"))
    room.adopt(2, (1,))
    room.producer.holds = False
    room.turn(3, after_ms=COMMIT_INTERVAL_MS)
    assert room.committed(0) == 6
    assert room.asked() == [{source(1): 5}]


def drop_all(room: Purged) -> None:
    room.member.losses += 1
    room.loop.drop_all("the membership was lost")


def lose_inputs(room: Purged) -> None:
    room.loop._lose_input({source(0): 5, source(1): 5})


@pytest.mark.parametrize("stop_tasks", [drop_all, lose_inputs])
def test_tasks_that_start_again_wait_for_their_next_commit(room: Purged, stop_tasks: Callable[[Purged], None]) -> None:
    """The topic may have been created again: the offsets are then those of the old one."""
    stop_tasks(room)
    room.turn(3, after_ms=COMMIT_INTERVAL_MS)
    room.adopt(2, (0, 1))
    room.turn(3, after_ms=COMMIT_INTERVAL_MS)
    assert room.asked() == []
    room.put(0, 1)
    room.turn(3, after_ms=COMMIT_INTERVAL_MS)
    assert room.asked() == [{source(0): 6}]


def test_without_a_lease_nothing_is_deleted(room: Purged) -> None:
    """A process that has slept may not know yet that its tasks are another's."""
    room.member._lease_s = 0.0
    assert room.asked() == []
    room.member._lease_s = 30.0
    assert room.asked() == [{source(0): 5, source(1): 5}]


def test_a_lost_membership_deletes_nothing_under_the_lease_of_the_next(room: Purged) -> None:
    room.member.losses += 1
    assert room.asked() == []
