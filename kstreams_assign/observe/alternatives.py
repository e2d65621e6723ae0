"""Alternatives to set side by side: what was asked for, under the group's assignor and others, with and without new settings.

Pure: from the words of a caller to changes, and from their outcomes to facts for scripts. Looking at them is ``insight``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kstreams_assign.errors import ConfigError
from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.decoded import DecodedGroup, DecodedProcess
from kstreams_assign.observe.group_state import PACE, GroupState
from kstreams_assign.observe.reasons import process_names
from kstreams_assign.observe.settings import OURS, read_settings
from kstreams_assign.observe.what_if import Outcome, by_place, predict

BY_PLACE_REBALANCES_MAX = 120
"""Longer plays are not repeated for other places of the newcomers."""

GENERATIONS_MAX = 2_000
SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Row:
    """An outcome. ``owner_changes_range``: least and most over where newcomers' random ids may sort; None: not tried."""

    outcome: Outcome
    owner_changes_range: tuple[int, int] | None = None


def process_called(group: DecodedGroup, word: str) -> UUID:
    """The process that people know by its id (or how that begins), a member id, a client id or its endpoint.

    Raises ``ConfigError`` listing the processes where none or several fit.
    """
    fits = [one for one in group.processes if word in _names(one)]
    if not fits and len(word) >= SHORTEST_PREFIX:
        fits = [one for one in group.processes if str(one.process_id).startswith(word.lower())]
    if len(fits) == 1:
        return fits[0].process_id
    known = "; ".join(
        f"{one.process_id} ({', '.join(sorted(_names(one) - {str(one.process_id)}))})" for one in group.processes
    )
    found = "no process is" if not fits else f"{len(fits)} processes are"
    raise ConfigError(f"{found} called {word!r} in group {group.snapshot.group}; there are {known}")


def _names(process: DecodedProcess) -> set[str]:
    members = [name for one in process.members for name in (one.member_id, one.described.client_id)]
    endpoint = process.report.user_end_point
    return {str(process.process_id), *members, *([endpoint] if endpoint else [])}


def read_changes(pairs: Iterable[str]) -> dict[str, Any]:
    """``key=value`` texts of settings that an assignment or its pace depends on. Raises ``ConfigError``."""
    told: dict[str, Any] = {}
    others = []
    for pair in pairs:
        key, _, text = (part.strip() for part in pair.partition("="))
        if key.replace(".", "_") in PACE:
            told[key.replace(".", "_")] = _pace(key.replace(".", "_"), text)
        else:
            others.append(pair)
    return told | read_settings(others)


def _pace(key: str, text: str) -> bool | int:
    if key.endswith("_ms"):
        if not text.isdecimal():
            raise ConfigError(f"--set {key}={text}: must be a whole number")
        return int(text)
    if text not in {"true", "false"}:
        raise ConfigError(f"--set {key}={text}: must be true or false")
    return text == "true"


def alternatives(
    state: GroupState, change: Alternative, settings: Mapping[str, Any], assignors: Sequence[str] = ()
) -> list[Alternative]:
    """``change`` under the group's assignor and beside it ``assignors`` (default: ours and Java's), then with ``settings`` too.

    Where Java processes are to be added, the same number of ours stands beside them.
    """
    compared = dict.fromkeys([state.assignor, *(assignors or (OURS, JAVA_ASSIGNOR))])
    set_to = [name if name != state.assignor else None for name in compared]
    found = [
        replace(change, settings=told, assignor=assignor)
        for told in ([{}, settings] if settings else [{}])
        for assignor in set_to
    ]
    if change.add_java:
        ours = replace(change, add=change.add + change.add_java, add_java=0)
        found.append(replace(ours, assignor=OURS if state.assignor != OURS else None))
    return [one for one in found if not one.nothing]


def played(state: GroupState, alternative: Alternative, offsets_per_s: int | None) -> Row:
    """The outcome of one alternative."""
    outcome = predict(state, alternative, offsets_per_s=offsets_per_s, generations_max=GENERATIONS_MAX)
    if not alternative.newcomers or outcome.rebalances > BY_PLACE_REBALANCES_MAX:
        return Row(outcome)
    found = [one.owner_changes for one in by_place(state, alternative)]
    return Row(outcome, (min(found), max(found)))


def without_repeats(rows: Iterable[Row]) -> list[Row]:
    """Where Java members are, several assignors that are set come to the same decision: the first of them stays."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        found.setdefault((row.outcome.alternative.text(), row.outcome.assignor), row)
    return list(found.values())


def facts(row: Row, names: Mapping[UUID, str]) -> dict[str, Any]:
    """One alternative for scripts, as the contract of ``what-if --json`` has it and a few more."""
    one = row.outcome
    return {
        "change": one.alternative.text(names),
        "assignor": one.assignor,
        "owner_changes": one.owner_changes,
        "owner_changes_range": list(row.owner_changes_range) if row.owner_changes_range else None,
        "lower_bound": one.lower_bound,
        "rounds": one.rounds,
        "rebalances": one.rebalances,
        "probing_rebalances": one.probing_rebalances,
        "seconds": one.seconds,
        "seconds_at_least": one.seconds_at_least,
        "extra_replicas": one.extra_replicas,
        "tasks_without_standby": one.tasks_without_standby,
        "adopted": one.adopted,
        "cold": one.cold,
        "offsets_read": one.offsets_read,
        "balanced": one.balanced,
        "converged": one.converged,
        "warnings": list(one.warnings),
    }


def names_of(group: DecodedGroup) -> dict[UUID, str]:
    """What processes are called in a table."""
    return process_names(group.view.processes)
