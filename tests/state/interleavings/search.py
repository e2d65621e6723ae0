"""Walks over all worlds: those that can be reached, how many ways lead there, and where one can still get to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.state.interleavings.steps import Rules
from tests.state.interleavings.world import STARVED, WAITS, World, plain, waits, wrongs


@dataclass
class Walk:
    """``following``: each world with those that can come next. ``paths[n]``: distinct interleavings of n steps."""

    following: dict[World, list[World]] = field(default_factory=dict)
    paths: list[int] = field(default_factory=list)
    wrong: dict[str, World] = field(default_factory=dict)
    came_by: dict[World, tuple[World, str]] = field(default_factory=dict)
    complete: bool = False

    def story(self, world: World) -> list[str]:
        """A shortest order of steps that leads there."""
        steps: list[str] = []
        while world in self.came_by:
            world, label = self.came_by[world]
            steps.append(label)
        return steps[::-1]


def walk(rules: Rules, first: World, depth: int | None = None, *, stop_at: str | None = None) -> Walk:
    """Breadth first, so that the first violation of each kind has a shortest story; ``depth``: None is to the end.

    With a depth interleavings are counted, exactly: each world of a layer with the number of orders of steps that end
    in it. ``stop_at``: a wrong that is enough.
    """
    walked = Walk()
    layer: Counter[World] = Counter({first: 1})
    while layer and (depth is None or len(walked.paths) <= depth) and stop_at not in walked.wrong:
        walked.paths.append(layer.total())
        _look_at(layer, rules, walked)
        layer = _next_layer(layer, walked, count=depth is not None)
    walked.complete = not layer
    return walked


def _look_at(layer: Iterable[World], rules: Rules, walked: Walk) -> None:
    """Expand what is new, and note what is wrong with it."""
    for world in [world for world in layer if world not in walked.following]:
        for wrong in wrongs(world):
            walked.wrong.setdefault(wrong, world)
        walked.following[world] = following = []
        for label, after in rules.next_worlds(world):
            then = plain(after)
            following.append(then)
            if then not in walked.following:
                walked.came_by.setdefault(then, (world, label))
        if waits(world, following):
            walked.wrong.setdefault(WAITS, world)
        if rules.starved(world):
            walked.wrong.setdefault(STARVED, world)


def _next_layer(layer: Counter[World], walked: Walk, *, count: bool) -> Counter[World]:
    following: Counter[World] = Counter()
    for world, ways in layer.items():
        for then in walked.following[world]:
            if count or then not in walked.following:
                following[then] += ways
    return following


def stuck(walked: Walk, goal: Callable[[World], bool]) -> set[World]:
    """Worlds from which no order of steps leads to the goal. Only of a complete walk."""
    before: dict[World, list[World]] = {}
    for world, following in walked.following.items():
        for then in following:
            before.setdefault(then, []).append(world)
    reaching = {world for world in walked.following if goal(world)}
    waiting = list(reaching)
    while waiting:
        for world in before.get(waiting.pop(), ()):
            if world not in reaching:
                reaching.add(world)
                waiting.append(world)
    return walked.following.keys() - reaching
