"""Processes that join a streams group at the same time, in simulated time: what each gets, and how long they wait.

The machines are the real ones; the group is Kafka's as its twin plays it, with its assignment interval.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.engine.warm_join import PATIENCE_MS
from kstreams_assign.model import TaskId
from tests.assign.streams_coordinator import Coordinator
from tests.engine.joining_group import Group, Process
from tests.observe.random_streams_groups import grown, random_uuid
from tests.samples import sample

HOUR_MS = 3_600_000


def stateful(random: Random) -> Coordinator:
    """Return a group with a random past that has state: one without is joined at once."""
    while True:
        coordinator = grown(random)
        if all(sub.is_stateful for sub in coordinator.subtopologies.values()):
            return coordinator


def hits(processes: list[Process]) -> tuple[int, int]:
    """Return how many tasks came that were expected, and how many came."""
    came = sum(len(process.given) for process in processes)
    return sum(len(process.given & expected(process)) for process in processes), came


def expected(process: Process) -> frozenset[TaskId]:
    assert process.join is not None
    return process.join.awaited


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("is_quiet", [True, False])
def test_each_gets_what_it_predicted_and_has_its_state(count: int, is_quiet: bool) -> None:
    """Also where the group was assigned for another reason shortly before, so that the first is assigned later."""
    came = expected_came = warm = 0
    for seed in sample(range(40), 8):
        random = Random(seed)
        group = Group(random, stateful(random))
        processes = [group.add(random.randint(0, 300), 60) for _ in range(count)]
        if not is_quiet:
            group.assigned_ms = group.now_ms + random.randint(0, 3_000)
        group.run(HOUR_MS)
        hit, all_came = hits(processes)
        expected_came, came = expected_came + hit, came + all_came
        warm += sum(len(process.given & process.warm_at_join) for process in processes)
    assert came
    assert expected_came / came >= (0.99 if is_quiet else 0.95)
    assert warm / came >= (0.99 if is_quiet else 0.95)


def two_owners(random: Random) -> Coordinator:
    coordinator = Coordinator({0: SubtopologyTasks(24, is_stateful=True)}, 0)
    for _ in range(2):
        coordinator.join(StreamsMember(str(random_uuid(random)), str(random_uuid(random))), is_served=True)
    return coordinator


def fast_and_other(change: Callable[[Process], None], other_task_ms: int = 100) -> tuple[Process, Process]:
    random = Random(3)
    group = Group(random, two_owners(random))
    fast, other = group.add(0, 100), group.add(10, other_task_ms)
    change(other)
    group.run(HOUR_MS)
    return fast, other


def test_none_waits_longer_than_it_restored_or_ten_seconds() -> None:
    fast, slow = fast_and_other(lambda _process: None, other_task_ms=60_000)
    waited_ms = fast.joined_ms - fast.begins_ms
    assert PATIENCE_MS < waited_ms < 2 * PATIENCE_MS
    assert fast.join is not None
    assert "join" not in fast.join.reason
    assert slow.given == expected(slow), "it follows the group"


def test_a_killed_one_is_not_waited_for() -> None:
    def kill(process: Process) -> None:
        run = process.turn

        def turn() -> None:
            run()
            process.is_dead = process.has_begun and process.group.now_ms > process.begins_ms + 300

        process.turn = turn  # type: ignore[method-assign]

    fast, _killed = fast_and_other(kill)
    assert fast.joined_ms - fast.begins_ms < 2 * PATIENCE_MS
    assert fast.given == expected(fast)


def test_one_that_hears_nothing_follows_the_group() -> None:
    def deafen(process: Process) -> None:
        process.is_deaf = True

    fast, deaf = fast_and_other(deafen)
    assert fast.joined_ms
    assert deaf.joined_ms
    assert deaf.given_with_state <= deaf.warm_at_join or fast.given_with_state <= fast.warm_at_join


def test_one_that_comes_later_makes_the_first_predict_again_and_keep_what_it_has() -> None:
    random = Random(5)
    group = Group(random, two_owners(random))
    first, late = group.add(0, 400), group.add(2_500, 100)
    group.run(HOUR_MS)
    assert first.join is not None
    assert first.join.reason.endswith("; 1 other joins with it")
    for process in (first, late):
        assert process.given == expected(process)
        assert process.given <= process.warm_at_join
    assert len(first.warming) > len(first.given), "what it restored while it was alone is kept"
