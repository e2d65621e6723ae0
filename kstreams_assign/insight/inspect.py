"""``inspect``: a group from its brokers or a saved file, described once or again and again.

What lives here: from the command's words to the picture. What must not: judgement (``observe``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from kstreams_assign.client_settings import client_pairs
from kstreams_assign.errors import BrokerUnavailable, ConfigError
from kstreams_assign.insight.fetch import group_reader, take_snapshot
from kstreams_assign.insight.files import read_text
from kstreams_assign.insight.show import show
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import Description, describe
from kstreams_assign.observe.document import document
from kstreams_assign.observe.lags import Stalled, stalled
from kstreams_assign.observe.settings import settings_of, told_settings
from kstreams_assign.observe.snapshot import GroupSnapshot, read_snapshot, snapshot_text
from kstreams_assign.observe.topology import given_topology, inferred_topology
from kstreams_assign.page.file import write_text

WATCH_S = 2.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller wants to see, and what they tell of the group. ``topology`` is a file, ``told`` its settings."""

    source: str
    bootstrap_servers: str | None = None
    topology: Path | None = None
    told: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 10.0


def asked(
    source: str,
    bootstrap_servers: str | None,
    topology: Path | None,
    settings: Iterable[str],
    client: Iterable[str],
    timeout_s: float,
) -> Asked:
    """Checked words of the command. Raises ``ConfigError`` for a setting that is none."""
    return Asked(source, bootstrap_servers, topology, told_settings(settings), client_pairs(client), timeout_s)


def find_snapshot(wanted: Asked) -> GroupSnapshot:
    """From the brokers if some are named, else from the file. Raises ``ConfigError`` where it is neither."""
    if wanted.bootstrap_servers is not None:
        return take_snapshot(wanted.bootstrap_servers, wanted.source, wanted.client, wanted.timeout_s)
    path = Path(wanted.source).absolute()
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; name the brokers of a group by --bootstrap-servers")
    return read_snapshot(read_text(path, "GROUP|FILE"), str(path))


def observe(snapshot: GroupSnapshot, wanted: Asked) -> ObservedGroup:
    """The snapshot with topology and settings. Raises ``NotAStreamsGroup``, ``ConfigError``."""
    decoded = decode_group(snapshot)
    if wanted.topology is None:
        topology = inferred_topology(decoded)
    else:
        text = read_text(wanted.topology, "--topology")
        topology = given_topology(text, snapshot, str(wanted.topology.absolute()))
    return ObservedGroup(decoded, topology, settings_of(decoded, wanted.told))


def inspect_once(wanted: Asked, *, as_json: bool, save: Path | None) -> None:
    """Print the group as it is, and keep the snapshot in a file if one is named."""
    snapshot = find_snapshot(wanted)
    if save is not None:
        write_text("--save", save, snapshot_text(snapshot))
    about = describe(observe(snapshot, wanted))
    if as_json:
        print(json.dumps(document(about), indent=2))
    else:
        Console().print(show(about))


def watch(wanted: Asked, *, as_json: bool) -> None:
    """The group every two seconds until Ctrl-C: on a terminal in place, else whenever something changed.

    As JSON one line a change.
    """
    console = Console()
    in_place = console.is_terminal and not as_json
    try:
        with Live(console=console, screen=True, auto_refresh=False) if in_place else nullcontext() as live:
            told: dict[str, Any] | None = None
            for about, slow in _seen(wanted):
                if live is not None:
                    live.update(show(about, slow, assumed=False), refresh=True)
                    continue
                facts = document(about, slow)
                if _unchanging(facts) != told:
                    told = _unchanging(facts)
                    _tell(console, about, slow, json.dumps(facts) if as_json else None)
    except KeyboardInterrupt:
        return


def _tell(console: Console, about: Description, slow: Sequence[Stalled], line: str | None) -> None:
    if line is None:
        console.print(show(about, slow, assumed=False))
        console.rule()
    else:
        print(line, flush=True)


def _unchanging(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Without what changes with every look."""
    moving = {"taken_ms", "why"}
    still = {key: value for key, value in facts.items() if key not in moving}
    return {**still, "processes": [{k: v for k, v in one.items() if k != "lags"} for one in facts["processes"]]}


def _seen(wanted: Asked) -> Iterator[tuple[Description, list[Stalled]]]:
    """One look after the other; with the copies that came no nearer since the join before."""
    if wanted.bootstrap_servers is None:
        raise ConfigError("--watch needs --bootstrap-servers: a saved snapshot does not change")
    before: ObservedGroup | None = None
    slow: list[Stalled] = []
    for snapshot in _snapshots(wanted.bootstrap_servers, wanted):
        group = observe(snapshot, wanted)
        if before is None or before.decoded.snapshot.generation != group.decoded.snapshot.generation:
            slow = stalled(before, group) if before else []
            before = group
        yield describe(group), slow


def _snapshots(bootstrap_servers: str, wanted: Asked) -> Iterator[GroupSnapshot]:
    """One every two seconds, without end. A connection that broke is made anew, once for each time that it worked."""
    worked = True
    while worked:
        worked = False
        with group_reader(bootstrap_servers, wanted.client, wanted.timeout_s) as reader:
            try:
                while True:
                    snapshot = reader.snapshot(wanted.source)
                    worked = True
                    yield snapshot
                    threading.Event().wait(WATCH_S)
            except BrokerUnavailable:
                if not worked:
                    raise
