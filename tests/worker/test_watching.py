"""A static member gets its old assignment back: does it still fit the state that is here?"""

from __future__ import annotations

from collections.abc import Iterable

from kstreams_assign import Config, TaskId
from kstreams_assign.model import RUNNING_OFFSET_SUM
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.watching import Watch
from tests.engine.member_machine import SHAPE, T, active

BEHIND = f"state here is too far behind for the old assignment: {T[0]}"


class Ends(Leading):
    """Where changelogs end; empty while the brokers do not answer."""

    def __init__(self) -> None:
        self.ends: dict[TaskId, int] = {}

    def end_offset_sums(self, tasks: Iterable[TaskId]) -> dict[TaskId, int]:
        return {task: self.ends[task] for task in tasks if task in self.ends}


def watch_after(sums: dict[TaskId, int]) -> tuple[Watch, Ends]:
    """A member that came back with these offset sums."""
    config = Config(application_id="app", bootstrap_servers="localhost:1", group_instance_id="one")
    ends = Ends()
    watch = Watch(config, SHAPE, ends)
    watch.assigned(active(T[0]), sums, leads=False)
    return watch, ends


def test_state_that_is_too_far_behind_is_a_reason_once_although_the_brokers_do_not_answer_at_first() -> None:
    watch, ends = watch_after({})
    assert watch.reason({}) is None
    ends.ends[T[0]] = 50_000
    assert watch.reason({}) == BEHIND
    assert watch.reason({}) is None


def test_state_that_is_there_is_no_reason() -> None:
    watch, ends = watch_after({T[0]: RUNNING_OFFSET_SUM})
    ends.ends[T[0]] = 50_000
    assert watch.reason({}) is None
    ends.ends[T[0]] = 10**9
    assert watch.reason({}) is None, "it is looked at once"
