"""Read a topology from a text: what Java's ``Topology.describe()`` prints, or our TOML.

The worker, ``inspect`` and ``numbering`` use it. Guessing a topology does not belong here: ``observe.topology`` guesses
and lists what it assumed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store

SUBTOPOLOGY = re.compile(r"\s*Sub-topology: (\d+)(?P<store> for global store.*)?\s*")
SINK = re.compile(r"\s*Sink: \S+ \(topic: (?P<topic>\S+)\)\s*")
SOURCE = re.compile(r"\s*Source: \S+ \(topics: (?P<topics>.*)\)\s*")
PROCESSOR = re.compile(r"\s*Processor: \S+ \(stores: \[(?P<stores>.*)\]\)\s*")
NAMED = re.compile(r"\s*Topology: (?P<name>.+):\s*")
REPARTITION = "-repartition"


@dataclass(slots=True)
class DescribedSubtopology:
    """One subtopology. ``stores``: name -> the store, None if the description does not show what its changelog is.

    Internal topics lack the application id: ``words-repartition``.
    """

    topics: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    stores: dict[str, Store | None] = field(default_factory=dict)
    sinks: list[str] = field(default_factory=list)
    is_global: bool = False


def internal_topics(listed: Iterable[DescribedSubtopology]) -> frozenset[str]:
    """Return the repartition topics that one subtopology writes and another reads, named as in the description."""
    listed = list(listed)
    sinks = {topic for subtopology in listed for topic in subtopology.sinks}
    written = sinks | {f"{topic}{REPARTITION}" for topic in sinks}
    sources = {topic for subtopology in listed for topic in subtopology.topics}
    return frozenset(topic for topic in sources if topic.endswith(REPARTITION) and topic in written)


def read_description(text: str, name: str) -> list[DescribedSubtopology]:
    """Return the subtopologies in the order of their numbers. Raises ``ConfigError`` naming the file (``name``)."""
    subtopologies = _from_java(text, name) if "Sub-topology:" in text else _from_toml(text, name)
    if not subtopologies:
        raise ConfigError(
            f"{name} describes no subtopology; it must hold the output of Java's Topology.describe(), or TOML with "
            f"[[topology.subtopology]] tables"
        )
    return subtopologies


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
            raise ConfigError(
                f"{name} has the named topology {named['name']}; named topologies are not supported, describe an "
                f"unnamed one"
            )
    if sorted(numbered) != list(range(len(numbered))):
        raise ConfigError(
            f"{name} has the subtopologies {sorted(numbered)}; they must be numbered from 0 without a gap: "
            f"give the whole output of Topology.describe()"
        )
    return [numbered[number] for number in sorted(numbered)]


def _add_source(current: DescribedSubtopology, topics: str) -> None:
    """Add ``[a, b]`` as topics; anything else is the pattern that the source subscribes to."""
    if topics.startswith("[") and topics.endswith("]"):
        current.topics += _names(topics[1:-1])
    else:
        current.patterns.append(topics)


def _names(listed: str) -> list[str]:
    return [name for name in listed.split(", ") if name]


def _from_toml(text: str, name: str) -> list[DescribedSubtopology]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigError(f"{name} is neither the output of Java's Topology.describe() nor TOML: {wrong}") from None
    topology = content.get("topology", {})
    listed = topology.get("subtopology", []) if isinstance(topology, dict) else []
    return [_described(table, f"{name}: subtopology {number}") for number, table in enumerate(listed)]


def _described(table: Mapping[str, Any], name: str) -> DescribedSubtopology:
    topics = _list(table, "sources", name)
    internal = [_named(item) for item in _list(table, "repartition_sources", name)]
    patterns = [table["sources_pattern"]] if isinstance(table, dict) and "sources_pattern" in table else []
    if not (topics or internal or patterns) or not all(isinstance(t, str) for t in (*topics, *internal, *patterns)):
        raise ConfigError(f"{name}: sources = {[*topics, *internal]!r}: must be a non-empty list of topics")
    stores = dict(_store(item, name) for item in _list(table, "stores", name))
    return DescribedSubtopology(
        [*topics, *(f"{topic}{REPARTITION}" for topic in internal)],
        patterns,
        stores=stores,
        sinks=_list(table, "sinks", name),
    )


def _named(item: object) -> object:
    """Return a repartition topic's name, given as a string or as a table ``{ name, partitions }``."""
    return item.get("name") if isinstance(item, dict) else item


def _store(item: object, name: str) -> tuple[str, Store | None]:
    if isinstance(item, str):
        return item, None
    if isinstance(item, dict):
        store, logged, source = item.get("name"), item.get("changelog", True), item.get("source")
        if isinstance(store, str) and isinstance(logged, bool) and isinstance(source, str | None):
            return store, Store(store, logged, source)
    raise ConfigError(
        f'{name}: stores has {item!r}; write "NAME", {{ name = "NAME", changelog = false }} or {{ name = "NAME", '
        f'source = "TOPIC" }}'
    )


def _list(table: Mapping[str, Any], key: str, name: str) -> list[Any]:
    values = table.get(key, []) if isinstance(table, dict) else None
    if not isinstance(values, list):
        raise ConfigError(f'{name}: {key} = {values!r}: must be a list, as in {key} = ["NAME"]')
    return values


def topic_matcher(pattern: str, name: str) -> Callable[[str], bool]:
    """Return a predicate that matches whole topic names. Raises ``ConfigError`` for an invalid pattern."""
    try:
        compiled = re.compile(pattern)
    except re.error as wrong:
        raise ConfigError(
            f"{name}: the topic pattern {pattern!r} is not a valid Python regular expression: {wrong}"
        ) from None
    return lambda topic: compiled.fullmatch(topic) is not None
