"""``inspect``: a group from its brokers or a saved file, described once or again and again.

What lives here: from the command's words to the picture. What must not: judgement (``observe``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.live import Live

from kstreams_assign.client_settings import client_pairs
from kstreams_assign.errors import BrokerUnavailable, ConfigError
from kstreams_assign.insight.fetch import group_reader, no_topic
from kstreams_assign.insight.files import is_file, read_text
from kstreams_assign.insight.fitted import Fitted
from kstreams_assign.insight.show import show
from kstreams_assign.insight.show_streams import show_streams
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.document import document
from kstreams_assign.observe.lags import Stalled, stalled
from kstreams_assign.observe.settings import read_settings, settings_of
from kstreams_assign.observe.snapshot import GroupSnapshot, read_snapshot, snapshot_text
from kstreams_assign.observe.streams_reasons import streams_document
from kstreams_assign.observe.streams_saved import is_streams_snapshot, read_streams_snapshot, streams_snapshot_text
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.topology import given_topology, inferred_topology, source_matcher
from kstreams_assign.page.file import write_text

WATCH_S = 2.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller wants to see. ``topology`` is a file; ``settings`` are the group's, as the caller gives them."""

    source: str
    bootstrap_servers: str | None = None
    topology: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
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
    """Check the arguments of the command. Raises ``ConfigError`` for a wrong setting."""
    return Asked(source, bootstrap_servers, topology, read_settings(settings), client_pairs(client), timeout_s)


def find_group(wanted: Asked) -> GroupSnapshot | StreamsSnapshot:
    """Take the snapshot from the brokers if they are given, else from the file. Raises ``ConfigError``."""
    if wanted.bootstrap_servers is not None:
        with group_reader(wanted.bootstrap_servers, wanted.client, wanted.timeout_s) as reader:
            return reader.look(wanted.source, _reads(wanted))
    path = Path(wanted.source).absolute()
    if not is_file(path):
        raise ConfigError(
            f"{wanted.source}: to look at a group, add its brokers (-b HOST:PORT); "
            f"for a saved snapshot, name the file: {path} does not exist"
        )
    text = read_text(path, "GROUP|FILE")
    return (read_streams_snapshot if is_streams_snapshot(text) else read_snapshot)(text, str(path))


def _reads(wanted: Asked) -> Callable[[str], bool]:
    """Return which topics the topology that the caller gives reads. Raises ``ConfigError``."""
    if wanted.topology is None:
        return no_topic
    return source_matcher(read_text(wanted.topology, "--topology"), str(wanted.topology.absolute()))


def refuse_classic_options(options: Mapping[str, tuple[object, str]]) -> None:
    """Raise ``ConfigError`` for an option that streams groups lack. ``options``: name -> what was given, and why."""
    for option, (given, why) in options.items():
        if given:
            raise ConfigError(f"{option}: not for a group of the streams protocol; {why}")


def known_to_broker(wanted: Asked, settings_option: str) -> dict[str, tuple[object, str]]:
    """Return the options for what the group's own broker knows. ``settings_option`` takes the group's settings."""
    return {
        "--topology": (wanted.topology, "the broker knows the topology"),
        settings_option: (wanted.settings, "the broker knows the settings"),
    }


def observe(snapshot: GroupSnapshot, wanted: Asked) -> ObservedGroup:
    """Return the snapshot with topology and settings. Raises ``NotAStreamsGroup``, ``ConfigError``."""
    decoded = decode_group(snapshot)
    if wanted.topology is None:
        topology = inferred_topology(decoded)
    else:
        text = read_text(wanted.topology, "--topology")
        is_saved = wanted.bootstrap_servers is None
        topology = given_topology(text, snapshot, str(wanted.topology.absolute()), is_saved=is_saved)
    return ObservedGroup(decoded, topology, settings_of(decoded, wanted.settings))


def inspect_once(wanted: Asked, *, as_json: bool, save: Path | None, assumptions: bool = False) -> None:
    """Print the group as it is; save the snapshot if ``save`` names a file."""
    snapshot = find_group(wanted)
    if isinstance(snapshot, StreamsSnapshot):
        refuse_classic_options(known_to_broker(wanted, "--set"))
    if save is not None:
        write_text("--save", save, _saved_text(snapshot))
    look = _look(snapshot, wanted, None, [])
    if as_json:
        print(json.dumps(look.facts(), indent=2))
    else:
        Console().print(look.picture(assumptions=assumptions))


def _saved_text(snapshot: GroupSnapshot | StreamsSnapshot) -> str:
    return streams_snapshot_text(snapshot) if isinstance(snapshot, StreamsSnapshot) else snapshot_text(snapshot)


class _Look(NamedTuple):
    """One moment: as JSON, and as a picture; ``assumptions`` lists them, ``table_last`` puts the sentences first."""

    facts: Callable[[], dict[str, Any]]
    picture: Callable[..., RenderableType]


def _look(
    snapshot: GroupSnapshot | StreamsSnapshot, wanted: Asked, group: ObservedGroup | None, slow: Collection[Stalled]
) -> _Look:
    """``group`` is what was observed in a classic group's snapshot, if that was done already."""
    if isinstance(snapshot, StreamsSnapshot):
        return _Look(partial(streams_document, snapshot), partial(show_streams, snapshot))
    about = describe(group or observe(snapshot, wanted))
    return _Look(partial(document, about, slow), partial(show, about, slow))


def watch(wanted: Asked, *, as_json: bool, assumptions: bool = False) -> None:
    """Show the group every two seconds until Ctrl-C: on a terminal in place, else whenever something changed.

    On a terminal the sentences come before the table, whose end may not fit. As JSON each change is one line.
    """
    console = Console()
    in_place = console.is_terminal and not as_json
    try:
        with Live(console=console, screen=True, auto_refresh=False) if in_place else nullcontext() as live:
            shown: dict[str, Any] | None = None
            for look in _looks(wanted):
                if live is not None:
                    live.update(Fitted(look.picture(assumptions=assumptions, table_last=True)), refresh=True)
                    continue
                facts = look.facts()
                if _unchanging(facts) != shown:
                    shown = _unchanging(facts)
                    if as_json:
                        print(json.dumps(facts), flush=True)
                    else:
                        console.print(look.picture(assumptions=assumptions))
                        console.rule()
    except KeyboardInterrupt:
        return


def _unchanging(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts without those that change with every snapshot; of processes that are awaited, who they are."""
    moving = {"taken_ms", "why", "changelog_offsets", "awaited"}
    still = {key: value for key, value in facts.items() if key not in moving}
    processes = [{k: v for k, v in process.items() if k != "lags"} for process in facts["processes"]]
    return {**still, "processes": processes, "awaited": sorted(facts.get("awaited", ()))}


def _looks(wanted: Asked) -> Iterator[_Look]:
    """Yield each snapshot described, with the replicas that made no progress since the previous join."""
    if wanted.bootstrap_servers is None:
        raise ConfigError("--watch needs --bootstrap-servers: a saved snapshot does not change")
    before: ObservedGroup | None = None
    slow: list[Stalled] = []
    for snapshot in _snapshots(wanted.bootstrap_servers, wanted):
        if isinstance(snapshot, StreamsSnapshot):
            refuse_classic_options(known_to_broker(wanted, "--set"))
            before, slow = None, []
            yield _look(snapshot, wanted, None, [])
            continue
        group = observe(snapshot, wanted)
        if before is None or before.decoded.snapshot.generation != group.decoded.snapshot.generation:
            slow = stalled(before, group) if before else []
            before = group
        yield _look(snapshot, wanted, group, slow)


def _snapshots(bootstrap_servers: str, wanted: Asked) -> Iterator[GroupSnapshot | StreamsSnapshot]:
    """Yield a snapshot every two seconds, without end. Reconnect once after each connection that had worked."""
    worked, reads = True, _reads(wanted)
    while worked:
        worked = False
        with group_reader(bootstrap_servers, wanted.client, wanted.timeout_s) as reader:
            try:
                while True:
                    snapshot = reader.look(wanted.source, reads)
                    worked = True
                    yield snapshot
                    threading.Event().wait(WATCH_S)
            except BrokerUnavailable:
                if not worked:
                    raise
