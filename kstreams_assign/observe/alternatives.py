"""Alternatives to compare: the requested change under several assignors, with and without new settings.

Pure: turns the caller's words into changes, and outcomes into facts for scripts. ``insight`` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
"""A longer simulation is not repeated for other places of the new processes."""

SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Row:
    """An outcome. ``owner_changes_range``: least and most over the places of new process ids; None: not tried."""

    outcome: Outcome
    owner_changes_range: tuple[int, int] | None = None


def process_called(group: DecodedGroup, word: str) -> UUID:
    """Return the process with this id (or prefix of it), member id, client id or endpoint.

    Raises ``ConfigError`` listing the processes if none or several match.
    """
    names = {str(process.process_id): _names(process) for process in group.processes}
    return UUID(called(word, names, group.snapshot.group))


def called(word: str, names: Mapping[str, Collection[str]], group: str) -> str:
    """Return the process with this id, or prefix of it, or other name; ``names``: process id -> its other names.

    Raises ``ConfigError`` listing the processes if none or several match.
    """
    fits = [process for process, others in names.items() if word == process or word in others]
    if not fits and len(word) >= SHORTEST_PREFIX:
        fits = [process for process in names if process.lower().startswith(word.lower())]
    if len(fits) == 1:
        return fits[0]
    known = "; ".join(f"{process} ({', '.join(sorted(others))})" for process, others in names.items())
    counted = "no process is" if not fits else f"{len(fits)} processes are"
    raise ConfigError(f"{counted} called {word!r} in group {group}; there are {known}")


def _names(process: DecodedProcess) -> set[str]:
    members = [name for member in process.members for name in (member.member_id, member.described.client_id)]
    endpoint = process.report.user_end_point
    return {*members, *([endpoint] if endpoint else [])}


def read_changes(pairs: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts of settings of the assignment or its pace. Raises ``ConfigError``."""
    changes: dict[str, Any] = {}
    others = []
    for pair in pairs:
        key, _, text = (part.strip() for part in pair.partition("="))
        if key.replace(".", "_") in PACE:
            changes[key.replace(".", "_")] = _pace(key.replace(".", "_"), text)
        else:
            others.append(pair)
    return changes | read_settings(others)


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
    """Return ``change`` under the group's assignor and ``assignors`` (default: ours, Java's), then with ``settings``.

    If Java processes are to be added, an alternative with the same number of ours follows.
    """
    compared = dict.fromkeys([state.assignor, *(assignors or (OURS, JAVA_ASSIGNOR))])
    set_to = [name if name != state.assignor else None for name in compared]
    compared_alternatives = [
        replace(change, settings=chosen, assignor=assignor)
        for chosen in ([{}, settings] if settings else [{}])
        for assignor in set_to
    ]
    if change.add_java:
        ours = replace(change, add=change.add + change.add_java, add_java=0)
        compared_alternatives.append(replace(ours, assignor=OURS if state.assignor != OURS else None))
    return [alternative for alternative in compared_alternatives if not alternative.nothing]


def played(
    state: GroupState,
    alternative: Alternative,
    offsets_per_s: int | None,
    rebalances_max: int,
    tell: Callable[[int], None] | None = None,
) -> Row:
    """Return the outcome of one alternative; ``tell`` as in ``predict``."""
    outcome = predict(state, alternative, offsets_per_s=offsets_per_s, generations_max=rebalances_max, tell=tell)
    if not (alternative.newcomers and outcome.converged) or outcome.rebalances > BY_PLACE_REBALANCES_MAX:
        return Row(outcome)
    owner_changes = [outcome.owner_changes for outcome in by_place(state, alternative)]
    return Row(outcome, (min(owner_changes), max(owner_changes)))


def without_repeats(rows: Iterable[Row]) -> list[Row]:
    """Keep the first of equal rows: in a group with Java members every assignor setting leads to the same decision."""
    first_rows: dict[tuple[str, str], Row] = {}
    for row in rows:
        first_rows.setdefault((row.outcome.alternative.text(), row.outcome.assignor), row)
    return list(first_rows.values())


def facts(row: Row, names: Mapping[UUID, str]) -> dict[str, Any]:
    """Return one alternative for scripts: the contract's keys of ``what-if --json`` and a few more."""
    outcome = row.outcome
    return {
        "change": outcome.alternative.text(names),
        "assignor": outcome.assignor,
        "owner_changes": outcome.owner_changes,
        "owner_changes_range": list(row.owner_changes_range) if row.owner_changes_range else None,
        "lower_bound": outcome.lower_bound,
        "rounds": outcome.rounds,
        "rebalances": outcome.rebalances,
        "probing_rebalances": outcome.probing_rebalances,
        "seconds": outcome.seconds,
        "seconds_at_least": outcome.seconds_at_least,
        "extra_replicas": outcome.extra_replicas,
        "tasks_without_standby": outcome.tasks_without_standby,
        "adopted": outcome.adopted,
        "cold": outcome.cold,
        "offsets_read": outcome.offsets_read,
        "balanced": outcome.balanced,
        "converged": outcome.converged,
        "warnings": list(outcome.warnings),
    }


def names_of(group: DecodedGroup) -> dict[UUID, str]:
    """Return the names of processes in a table."""
    return process_names(group.view.processes)
