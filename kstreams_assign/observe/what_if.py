"""What a change would do to a group, before it is made: owner changes, rebalances, time, and what is at risk on the way.

The group is played on (``played``) with its real leader until nobody asks for a rebalance, so what is counted is what a
broker would show. Pure and quick, for ``what-if`` and for whole histories: no clock, no I/O. Counting words: a *rebalance* is a
generation, a *round* a decision that is no follow-up, an *owner change* a task whose process differs from the round before
while the old one is still there; what an orphan's new process does is *adopt*.
"""

from __future__ import annotations

from dataclasses import dataclass

from kstreams_assign.assign import is_instance_balanced, owner_changes_lower_bound
from kstreams_assign.observe.changes import PLACES, Alternative, Place, changed
from kstreams_assign.observe.group_state import GroupState
from kstreams_assign.observe.pace import FOLLOW_UP, PROBE, until_next, until_probe, until_read
from kstreams_assign.observe.played import Generation, PlayedGroup

CHANGE = "change"
GENERATIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an alternative. ``assignor`` is what decided (or would), whatever was set.

    ``seconds``: until no rebalance is to come and all state is read, a generation itself taking no time; None where state has
    to be read and nobody knows how fast. ``seconds_at_least``: the waits between rebalances alone, at their shortest.
    ``extra_replicas``: the most warm-ups at a time. ``tasks_without_standby``: the most stateful tasks at a time, right after
    any of the rebalances, of which nobody but the owner has a copy that has caught up (within ``acceptable_recovery_lag``):
    losing the owner then costs a restore. ``cold``: tasks that a process got to run and has to restore first. ``offsets_read``:
    by all copies and restored tasks together. ``converged`` is False where the group would go on probing.
    """

    alternative: Alternative
    assignor: str
    owner_changes: int
    lower_bound: int
    rounds: int
    rebalances: int
    probing_rebalances: int
    seconds: float | None
    seconds_at_least: float
    extra_replicas: int
    tasks_without_standby: int
    adopted: int
    cold: int
    offsets_read: int
    balanced: bool
    converged: bool
    warnings: tuple[str, ...]
    generations: tuple[Generation, ...]


def predict(
    state: GroupState,
    alternative: Alternative,
    *,
    offsets_per_s: int | None = None,
    place: Place = "last",
    generations_max: int = GENERATIONS_MAX,
) -> Outcome:
    """Play ``state`` on with the change made. Raises ``ConfigError`` for a change that cannot be made.

    ``offsets_per_s``: how fast one process restores; None where that is not known: then every copy gets to its end between two
    probing rebalances. ``place``: where new processes' random ids sort.
    """
    group = PlayedGroup(changed(state, alternative, place))
    played = tuple(_play(group, alternative, offsets_per_s, generations_max))
    converged = len(played) < generations_max
    waited_ms = group.now_ms
    until_read(group, offsets_per_s)
    known = offsets_per_s is not None or not group.offsets_read
    decisions = [generation.decision for generation in played]
    rounds = [decision for decision in decisions if decision.kind == "round"]
    owners = group.owners()
    return Outcome(
        alternative=alternative,
        assignor=decisions[-1].assignor if decisions else group.next_decision().assignor,
        owner_changes=sum(len(decision.changed) for decision in decisions),
        lower_bound=decisions[0].owner_changes_lower_bound if decisions else _bound(group),
        rounds=len(rounds),
        rebalances=len(played),
        probing_rebalances=sum(generation.cause == PROBE for generation in played),
        seconds=round(group.now_ms / 1000, 3) if known and converged else None,
        seconds_at_least=round(waited_ms / 1000, 3),
        extra_replicas=max((generation.warmups for generation in played), default=0),
        tasks_without_standby=max((generation.exposed for generation in played), default=group.exposed()),
        adopted=sum(len(decision.adopted) for decision in decisions),
        cold=sum(len(generation.cold) for generation in played),
        offsets_read=group.offsets_read,
        balanced=is_instance_balanced(owners, group.capacities),
        converged=converged,
        warnings=tuple(dict.fromkeys(warning for decision in decisions for warning in decision.warnings)),
        generations=played,
    )


def by_place(state: GroupState, alternative: Alternative) -> list[Outcome]:
    """One outcome for each place that newcomers' ids may have; a single one where nobody comes."""
    places = PLACES if alternative.newcomers else PLACES[:1]
    return [predict(state, alternative, place=place) for place in places]


def _play(
    group: PlayedGroup, alternative: Alternative, offsets_per_s: int | None, generations_max: int
) -> list[Generation]:
    cause = _first_cause(group, alternative, offsets_per_s)
    played: list[Generation] = []
    while cause is not None and len(played) < generations_max:
        played.append(group.rebalance(cause))
        cause = until_next(group, played[-1].decision, offsets_per_s)
    return played


def _first_cause(group: PlayedGroup, alternative: Alternative, offsets_per_s: int | None) -> str | None:
    """A change brings a rebalance at once. Else the group goes on with what it has before it."""
    if not alternative.nothing:
        return CHANGE
    if group.promised or group.state.rebalance_in_ms == 0:
        return FOLLOW_UP
    if group.state.rebalance_in_ms is None:
        return None
    until_probe(group, group.standing(), group.state.rebalance_in_ms, offsets_per_s)
    return PROBE


def _bound(group: PlayedGroup) -> int:
    owners = group.owners()
    return owner_changes_lower_bound(owners, group.capacities, owners.keys())
