"""Predict what a change does to a group: owner changes, rebalances, time, and the risk on the way.

The group is simulated (``played``) with its real leader until no member asks for a rebalance, so the counts are those
that a broker would show. Pure and quick, for ``what-if`` and for whole histories: no clock, no I/O. Counted words: a
*rebalance* is a generation, a *round* a decision that is not a follow-up, an *owner change* a task whose process
differs from the round before while the old process is still in the group. A task whose process left is *adopted*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kstreams_assign.assign import is_instance_balanced, is_load_balanced, owner_changes_lower_bound
from kstreams_assign.group.loads import explain_balance_ignored
from kstreams_assign.group.values import Decision
from kstreams_assign.observe.changes import PLACES, Alternative, Place, changed
from kstreams_assign.observe.group_state import GroupState
from kstreams_assign.observe.pace import FOLLOW_UP, PROBE, until_next, until_probe, until_read
from kstreams_assign.observe.played import Generation, PlayedGroup

CHANGE = "change"
GENERATIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an alternative. ``assignor`` is the assignor that decides, whatever the setting.

    ``seconds``: until no rebalance is due and all state is read, with generations that take no time; None if state has
    to be read at an unknown rate. ``seconds_at_least``: only the waits between rebalances, at their shortest.
    ``extra_replicas``: the most warm-ups at a time. ``tasks_without_standby``: the most stateful tasks, right after
    any rebalance, without a caught-up replica (within ``acceptable_recovery_lag``) beside the owner's: losing the
    owner then costs a restore. ``cold``: active tasks that their process has to restore first. ``offsets_read``: by
    all replicas and restored tasks together. ``balanced``: by load if the last decision used loads (``balance_by``),
    otherwise by number of tasks. ``converged`` is False if the group would go on probing.
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
    tell: Callable[[int], None] | None = None,
) -> Outcome:
    """Simulate ``state`` with the change made. Raises ``ConfigError`` for a change that cannot be made.

    ``offsets_per_s``: how fast one process restores; if None, every replica gets to its end between two probing
    rebalances. ``place``: where new processes' random ids sort. ``tell`` is called after each rebalance, with how many
    there were.
    """
    group = PlayedGroup(changed(state, alternative, place))
    played, converged = _play(group, alternative, offsets_per_s, generations_max, tell or _tell_nothing)
    waited_ms = group.now_ms
    until_read(group, offsets_per_s)
    known = offsets_per_s is not None or not group.offsets_read
    decisions = [generation.decision for generation in played]
    rounds = [decision for decision in decisions if decision.kind == "round"]
    last = decisions[-1] if decisions else group.next_decision()
    return Outcome(
        alternative=alternative,
        assignor=last.assignor,
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
        balanced=_is_balanced(group, last),
        converged=converged,
        warnings=tuple(dict.fromkeys(warning for decision in decisions for warning in decision.warnings)),
        generations=played,
    )


def _tell_nothing(rebalances: int) -> None:
    del rebalances


def by_place(state: GroupState, alternative: Alternative) -> list[Outcome]:
    """Return an outcome for each place of the new processes' ids; a single one without new processes."""
    places = PLACES if alternative.newcomers else PLACES[:1]
    return [predict(state, alternative, place=place) for place in places]


def _play(
    group: PlayedGroup,
    alternative: Alternative,
    offsets_per_s: int | None,
    generations_max: int,
    tell: Callable[[int], None],
) -> tuple[tuple[Generation, ...], bool]:
    """Return the rebalances, and whether the group is at rest after them."""
    cause = _first_cause(group, alternative, offsets_per_s)
    played: list[Generation] = []
    while cause is not None and len(played) < generations_max:
        played.append(group.rebalance(cause))
        tell(len(played))
        cause = until_next(group, played[-1].decision, offsets_per_s)
    return tuple(played), cause is None


def _first_cause(group: PlayedGroup, alternative: Alternative, offsets_per_s: int | None) -> str | None:
    """Return the first rebalance's cause: a change causes one at once; else the group goes on as it is."""
    if not alternative.nothing:
        return CHANGE
    if group.promised or group.state.rebalance_in_ms == 0:
        return FOLLOW_UP
    if group.state.rebalance_in_ms is None:
        return None
    until_probe(group, group.standing(), group.state.rebalance_in_ms, offsets_per_s)
    return PROBE


def _is_balanced(group: PlayedGroup, last: Decision) -> bool:
    """Judge as ``describe`` does: by load where this decision used loads, otherwise by number of tasks."""
    uses_loads = explain_balance_ignored(last.assignor, group.state.config.balance_by) is None
    if uses_loads and last.standing is not None and last.standing.cluster.loads:
        return is_load_balanced(group.owners(), group.capacities, last.standing.cluster.loads)
    return is_instance_balanced(group.owners(), group.capacities)


def _bound(group: PlayedGroup) -> int:
    owners = group.owners()
    return owner_changes_lower_bound(owners, group.capacities, owners.keys())
