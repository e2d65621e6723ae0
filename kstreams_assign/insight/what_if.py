"""``what-if``: a group from its brokers or a saved file, played on with changes, and the outcomes side by side.

What lives here: from the command's words to the table. What must not: predictions (``observe.what_if``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kstreams_assign.errors import ConfigError
from kstreams_assign.insight.files import read_text
from kstreams_assign.insight.inspect import Asked, find_group, known_to_broker, observe, refuse_classic_options
from kstreams_assign.insight.streams_what_if import PlayedChange
from kstreams_assign.insight.what_if_table import table
from kstreams_assign.observe.alternatives import (
    Row,
    alternatives,
    facts,
    names_of,
    played,
    process_called,
    read_changes,
    without_repeats,
)
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.group_state import PACE, GroupState, state_of_group
from kstreams_assign.observe.restore_rate import restore_rate
from kstreams_assign.observe.settings import STANDBYS
from kstreams_assign.observe.snapshot import read_snapshot
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import playable
from kstreams_assign.observe.streams_state import process_called as process_in_streams_group
from kstreams_assign.observe.streams_what_if import StreamsChange
from kstreams_assign.topology.internal import missing_sources

ADDED_MEMBERS_MAX = 1_000
"""Of all added processes together. So many take some ten seconds in a small group, minutes in a large one."""
REBALANCES_MAX = 2_000
TELLS_EACH = 10
"""Rebalances. Where there is no terminal, a line says after so many how far it is."""
QUICK_SIZE = 1_000
"""Stateful tasks times processes; a larger group takes seconds for each alternative."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change, in the caller's words.

    ``since``: an earlier snapshot, to measure the restore rate from. ``rebalances``: of each alternative at most; None:
    ``REBALANCES_MAX``.
    """

    add: int = 0
    add_java: int = 0
    threads: int = 1
    remove: Sequence[str] = ()
    replace: Sequence[str] = ()
    settings: Sequence[str] = ()
    assignors: Sequence[str] = ()
    restore_rate: int | None = None
    since: Path | None = None
    rebalances: int | None = None


def what_if(wanted: Asked, change: Change, *, as_json: bool) -> None:
    """Print what ``change`` and its alternatives would do to the group.

    Raises ``ConfigError`` for words that cannot be read, ``NotAStreamsGroup`` for a group without members, and what
    ``find_group`` does.
    """
    _refuse_too_many(change)
    settings = read_changes(change.settings)
    snapshot = find_group(wanted)
    if isinstance(snapshot, StreamsSnapshot):
        played_change = _played_change(snapshot, wanted, change, settings)
        if as_json:
            print(json.dumps(played_change.document(), indent=2))
        else:
            Console().print(played_change.picture())
        return
    group = observe(snapshot, wanted)
    _refuse_unknown_sources(group, is_saved=wanted.bootstrap_servers is None)
    state = state_of_group(group)
    asked = Alternative(
        add=change.add,
        add_java=change.add_java,
        threads=change.threads,
        remove=tuple(process_called(group.decoded, word) for word in change.remove),
        replace=tuple(process_called(group.decoded, word) for word in change.replace),
    )
    rate, rate_from = _rate(group, change)
    assignors = [*change.assignors, *([settings.pop("assignor")] if "assignor" in settings else [])]
    rebalances_max = change.rebalances or REBALANCES_MAX
    now = played(state, Alternative(), rate, rebalances_max)
    rows = _rows(state, alternatives(state, asked, settings, assignors), rate, rebalances_max)
    assumed = {**state.assumed, **_assumed(state, asked, rate_from)}
    if as_json:
        print(json.dumps(_document(group, now, rows, rate, assumed), indent=2))
    else:
        title = f"{snapshot.group}: {len(group.tasks)} tasks on {len(group.decoded.processes)} processes"
        Console().print(table(title, now, rows, names_of(group.decoded), assumed))


def _refuse_unknown_sources(group: ObservedGroup, *, is_saved: bool) -> None:
    """Raise ``ConfigError`` for source topics that may exist: the leader that is played would call them missing."""
    snapshot = group.decoded.snapshot
    missing = missing_sources(group.topology.shape, snapshot.partition_counts) if group.decoded.processes else []
    if missing and "topics" in snapshot.gaps:
        raise ConfigError(f"nothing can be predicted: {snapshot.gaps['topics']}")
    if missing and is_saved:
        names = ", ".join(missing)
        raise ConfigError(
            f"nothing can be predicted: source topics are not in the snapshot: {names}; ask the brokers (-b HOST:PORT)"
        )


def _refuse_too_many(change: Change) -> None:
    added = (change.add + change.add_java) * change.threads
    if added > ADDED_MEMBERS_MAX:
        raise ConfigError(
            f"--add {change.add} and --add-java {change.add_java} with --threads {change.threads}: "
            f"{added:,} members would be added; allowed are {ADDED_MEMBERS_MAX:,}"
        )


def _played_change(
    snapshot: StreamsSnapshot, wanted: Asked, change: Change, settings: Mapping[str, Any]
) -> PlayedChange:
    """Play the change in a streams group. Raises ``ConfigError`` for what does not exist there."""
    refuse_classic_options(
        {
            "--add-java": (change.add_java, "the broker assigns alike to members in any language: use --add"),
            "--assignor": (change.assignors, "the broker assigns, by an assignor of its own"),
            **known_to_broker(wanted, "--current"),
            "--since": (change.since, "members report no positions: give --restore-rate"),
            "--rebalances": (change.rebalances, "the broker moves all tasks at once"),
        }
    )
    if others := settings.keys() - {STANDBYS}:
        raise ConfigError(
            f"--set {min(others)}: not for a group of the streams protocol, whose broker only has {STANDBYS}"
        )
    remove = [process_in_streams_group(snapshot, word) for word in change.remove]
    replaced = [process_in_streams_group(snapshot, word) for word in change.replace]
    threads = {len(snapshot.processes[name]) for name in replaced} | ({change.threads} if change.add else set())
    if len(threads) > 1:
        raise ConfigError(
            f"--replace: the new processes would have {' and '.join(map(str, sorted(threads)))} members; "
            "here all have to have as many: play the changes one by one"
        )
    return PlayedChange(
        snapshot,
        playable(snapshot),
        StreamsChange(
            add=change.add + len(replaced),
            threads=max(threads, default=1),
            remove=(*remove, *replaced),
            num_standby_replicas=settings.get(STANDBYS),
        ),
        change.restore_rate,
    )


def _rows(state: GroupState, alternatives: Sequence[Alternative], rate: int | None, rebalances_max: int) -> list[Row]:
    rows = []
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("")
        for number, alternative in enumerate(alternatives, start=1):
            named = f"{alternative.text()} ({alternative.assignor or state.assignor})"
            text = f"playing {number} of {len(alternatives)}: {named}"
            progress.update(bar, description=text)
            says = _takes_seconds(state, alternative) and not console.is_terminal
            if says:
                print(text, file=sys.stderr, flush=True)

            def tell(rebalances: int, text: str = text, says: bool = says) -> None:
                so_far = f"{text}: {rebalances:,} rebalances"
                progress.update(bar, description=so_far)
                if says and rebalances % TELLS_EACH == 0:
                    print(so_far, file=sys.stderr, flush=True)

            rows.append(played(state, alternative, rate, rebalances_max, tell))
    return without_repeats(rows)


def _takes_seconds(state: GroupState, alternative: Alternative) -> bool:
    return len(state.ends) * (len(state.processes) + alternative.newcomers * alternative.threads) > QUICK_SIZE


def _rate(group: ObservedGroup, change: Change) -> tuple[int | None, str]:
    """Offsets that one process restores in a second, and where that is from."""
    if change.restore_rate is not None:
        return change.restore_rate, f"{change.restore_rate:,} offsets/s a process, given"
    why = (
        "not known, so times are not either: give --restore-rate, or an earlier snapshot of a warming group by --since"
    )
    if change.since is None:
        return None, why
    rate = restore_rate(
        decode_group(read_snapshot(read_text(change.since, "--since"), str(change.since.absolute()))), group
    )
    if rate is None:
        return None, f"not known: no copy read on, and was not at its end, between {change.since} and now"
    return rate, f"{rate:,} offsets/s a process, measured since {change.since}"


def _assumed(state: GroupState, asked: Alternative, rate_from: str) -> dict[str, str]:
    """What the predictions take for granted beside what the group does not tell."""
    pace = {key: getattr(state, key) for key in PACE}
    shown = ", ".join(f"{key} {str(value).lower()}" for key, value in pace.items())
    assumed = {
        "restore rate": rate_from,
        "pace": f"{shown}; members that are not ours wait for the probing interval",
        "change": "processes leave and join at the same rebalance, all at once; those that join have no state",
        "settings and assignor": "changed at every member together; the restarts that this takes are not counted",
    }
    if asked.newcomers:
        assumed["new process ids"] = "random; they sort last in the figures, and anywhere in the range of owner changes"
    return assumed


def _document(
    group: ObservedGroup, now: Row, rows: Iterable[Row], rate: int | None, assumed: dict[str, str]
) -> dict[str, Any]:
    names, snapshot = names_of(group.decoded), group.decoded.snapshot
    return {
        "group": snapshot.group,
        "generation": snapshot.generation,
        "processes": len(group.decoded.processes),
        "tasks": len(group.tasks),
        "restore_rate": rate,
        "now": facts(now, names),
        "alternatives": [facts(row, names) for row in rows],
        "assumed": assumed,
    }
