"""A topology as its owner describes it: the text of Java's ``Topology.describe()``, or our own TOML.

What lives here: reading the two forms, for the worker, the leader's outside views and the numbering alike. What must not: guessing
(``observe.topology`` does that, and says so).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreams_assign.errors import ConfigError

SUBTOPOLOGY = re.compile(r"\s*Sub-topology: (\d+)(?P<store> for global store.*)?\s*")
SINK = re.compile(r"\s*Sink: \S+ \(topic: (?P<topic>\S+)\)\s*")
SOURCE = re.compile(r"\s*Source: \S+ \(topics: (?P<topics>.*)\)\s*")
PROCESSOR = re.compile(r"\s*Processor: \S+ \(stores: \[(?P<stores>.*)\]\)\s*")
NAMED = re.compile(r"\s*Topology: (?P<name>.+):\s*")
REPARTITION = "-repartition"


@dataclass(slots=True)
class DescribedSubtopology:
    """One subtopology. ``patterns`` stand for topics that match; ``stores`` may be logged or not (None: not told).

    Internal topics stand without the application's name: ``words-repartition``.
    """

    topics: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    stores: dict[str, bool | None] = field(default_factory=dict)
    sinks: list[str] = field(default_factory=list)
    is_global: bool = False


def internal_topics(listed: Iterable[DescribedSubtopology]) -> frozenset[str]:
    """The topics that the subtopologies hand on to each other, as they stand there: read by one, written by one, and named so."""
    listed = list(listed)
    written = {topic for one in listed for topic in one.sinks} | {
        f"{t}{REPARTITION}" for one in listed for t in one.sinks
    }
    return frozenset(t for one in listed for t in one.topics if t.endswith(REPARTITION) and t in written)


def read_description(text: str, name: str) -> list[DescribedSubtopology]:
    """The subtopologies in the order of their numbers. Raises ``ConfigError`` naming the file (``name``)."""
    found = _from_java(text, name) if "Sub-topology:" in text else _from_toml(text, name)
    if not found:
        raise ConfigError(f"{name} describes no subtopology; give what Java's Topology.describe() prints, or our TOML")
    return found


def _from_java(text: str, name: str) -> list[DescribedSubtopology]:
    numbered: dict[int, DescribedSubtopology] = {}
    current = DescribedSubtopology()
    for line in text.splitlines():
        if begins := SUBTOPOLOGY.fullmatch(line):
            current = DescribedSubtopology(is_global=begins["store"] is not None)
            numbered[int(begins[1])] = current
        elif (source := SOURCE.fullmatch(line)) and not current.is_global:
            _add_source(current, source["topics"])
        elif (processor := PROCESSOR.fullmatch(line)) and not current.is_global:
            current.stores.update(dict.fromkeys(_names(processor["stores"])))
        elif (sink := SINK.fullmatch(line)) and not current.is_global:
            current.sinks.append(sink["topic"])
        elif named := NAMED.fullmatch(line):
            raise ConfigError(f"{name} has the named topology {named['name']}; only unnamed ones can be given")
    if sorted(numbered) != list(range(len(numbered))):
        raise ConfigError(
            f"{name} has the subtopologies {sorted(numbered)}; they must be numbered from 0 without a gap"
        )
    return [numbered[number] for number in sorted(numbered)]


def _add_source(current: DescribedSubtopology, topics: str) -> None:
    """``[a, b]``, or the pattern that a source subscribes to, as it is."""
    if topics.startswith("[") and topics.endswith("]"):
        current.topics += _names(topics[1:-1])
    else:
        current.patterns.append(topics)


def _names(listed: str) -> list[str]:
    return [one for one in listed.split(", ") if one]


def _from_toml(text: str, name: str) -> list[DescribedSubtopology]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigError(f"{name} is neither Java's Topology.describe() nor TOML: {wrong}") from None
    topology = content.get("topology", {})
    listed = topology.get("subtopology", []) if isinstance(topology, dict) else []
    return [_described(one, f"{name}: subtopology {number}") for number, one in enumerate(listed)]


def _described(table: Mapping[str, Any], name: str) -> DescribedSubtopology:
    topics, internal = _list(table, "sources", name), [_named(one) for one in _list(table, "repartition_sources", name)]
    patterns = [table["sources_pattern"]] if isinstance(table, dict) and "sources_pattern" in table else []
    if not (topics or internal or patterns) or not all(isinstance(t, str) for t in (*topics, *internal, *patterns)):
        raise ConfigError(f"{name}: sources = {[*topics, *internal]!r}: must be a list of topics that is not empty")
    stores = dict(_store(one, name) for one in _list(table, "stores", name))
    return DescribedSubtopology(
        [*topics, *(f"{one}{REPARTITION}" for one in internal)],
        patterns,
        stores=stores,
        sinks=_list(table, "sinks", name),
    )


def _named(one: object) -> object:
    """A repartition topic's name, also from a table ``{ name, partitions }``."""
    return one.get("name") if isinstance(one, dict) else one


def _store(one: object, name: str) -> tuple[str, bool | None]:
    if isinstance(one, str):
        return one, None
    if isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("changelog", True), bool):
        return one["name"], None if "source" in one else one.get("changelog", True)
    raise ConfigError(f'{name}: stores has {one!r}; write "NAME" or {{ name = "NAME", changelog = false }}')


def _list(table: Mapping[str, Any], key: str, name: str) -> list[Any]:
    found = table.get(key, []) if isinstance(table, dict) else None
    if not isinstance(found, list):
        raise ConfigError(f"{name}: {key} = {found!r}: must be a list")
    return found


def topic_matcher(pattern: str, name: str) -> Callable[[str], bool]:
    """Whether a topic matches a source's pattern. Raises ``ConfigError`` for one that Python cannot read."""
    try:
        compiled = re.compile(pattern)
    except re.error as wrong:
        raise ConfigError(f"{name}: the topic pattern {pattern!r} cannot be read: {wrong}") from None
    return lambda topic: compiled.fullmatch(topic) is not None
