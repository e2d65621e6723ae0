"""Members, their client, the loop, the cleaner and the broker in every order: no violation, and no member is stuck."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.state.interleavings.planted import PLANTED
from tests.state.interleavings.search import Walk, stuck, walk
from tests.state.interleavings.steps import Plan, Rules
from tests.state.interleavings.world import STABLE, World, first_world, plain

CALM = Plan(lost=False, close=False, fatal=False, wish=False)


@pytest.fixture(scope="module")
def calm() -> Walk:
    """Two members that nothing ends: all worlds."""
    return walk(Rules(CALM), first_world(2, 1))


@pytest.fixture(scope="module")
def alone() -> Walk:
    """One member whom everything befalls but a close, so that it must always get on: all worlds."""
    return walk(Rules(Plan(close=False, fatal=False)), first_world(1, 1))


def test_a_member_with_every_event_and_the_cleaner_in_every_order() -> None:
    walked = walk(Rules(), first_world(1, 1))
    assert walked.complete
    assert len(walked.following) > 1_000
    assert walked.wrong == {}


def test_two_members_and_the_cleaner_in_every_order(calm: Walk) -> None:
    assert calm.complete
    assert len(calm.following) > 5_000
    assert calm.wrong == {}


def test_two_members_whom_everything_befalls_in_every_order_of_six_steps() -> None:
    walked = walk(Rules(), first_world(2, 1), 6)
    assert sum(walked.paths) > 100_000
    assert walked.wrong == {}


def test_counted_interleavings_equal_enumerated_ones() -> None:
    rules = Rules()

    def enumerated(world: World, depth: int) -> int:
        return 1 if depth == 0 else sum(enumerated(plain(then), depth - 1) for _, then in rules.next_worlds(world))

    first = first_world(2, 1)
    assert walk(rules, first, 4).paths == [enumerated(first, depth) for depth in range(5)]


def cleaner_inside(world: World) -> bool:
    return world.mutex.cleaning


def everybody_has_reported(world: World) -> bool:
    return len(world.mutex.reporting) == len(world.seats)


def all_stable_with_a_true_report(world: World) -> bool:
    return all(seat.at_rest and seat.machine.state == STABLE and not seat.lacking for seat in world.seats)


@pytest.mark.parametrize("goal", [cleaner_inside, everybody_has_reported, all_stable_with_a_true_report])
@pytest.mark.parametrize("walked", ["calm", "alone"])
def test_every_world_can_still_reach_a_stable_one(
    walked: str, goal: Callable[[World], bool], request: pytest.FixtureRequest
) -> None:
    assert stuck(request.getfixturevalue(walked), goal) == set()


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_the_same_walk_finds_every_planted_mistake(planted: type[Rules]) -> None:
    wrong = PLANTED[planted]
    walks = (walk(planted(), first_world(members, 1), depth, stop_at=wrong) for members, depth in ((1, 12), (2, 8)))
    assert any(wrong in walked.wrong for walked in walks)
