"""Subtopologies as a program declares them, and as the group must know them.

What lives here: ``Flow``, and giving internal topics their full names. What must not: the functions that work on records
(``worker.task``), and counting partitions (``internal``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TopologyShape, repartition_topic


@dataclass(frozen=True, slots=True)
class Repartition:
    """A repartition topic by its short name: ``words`` is the topic ``<application id>-words-repartition``.

    ``partitions`` None: as many as the largest source of the subtopologies that write to it.
    """

    name: str
    partitions: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"repartition_sources: name = {self.name!r}: must be a non-empty string")
        if self.partitions is not None and (isinstance(self.partitions, bool) or self.partitions < 1):
            raise ConfigError(
                f"repartition topic {self.name}: partitions = {self.partitions!r}: must be a whole number >= 1"
            )


@dataclass(frozen=True, slots=True)
class Flow:
    """What is to be known of a subtopology beside its code. ``sinks``: what the program calls a topic -> the topic.

    As declared, ``shape`` lacks the ``repartition`` topics, as their names need the application's; ``bound`` puts them there.
    """

    shape: SubtopologyShape
    sinks: Mapping[str, str] = field(default_factory=dict)
    repartition: tuple[Repartition, ...] = ()

    @classmethod
    def of(
        cls,
        sources: Sequence[str],
        stores: Sequence[str | Store] = (),
        sinks: Sequence[str] = (),
        repartition_sources: Sequence[str | Repartition] = (),
        copartitioned: Iterable[Sequence[str]] = (),
        pattern: str | None = None,
    ) -> Flow:
        """A store, and a repartition topic, may be given by its name. Raises ``ConfigError``."""
        named = tuple(store if isinstance(store, Store) else Store(store) for store in stores)
        internal = tuple(one if isinstance(one, Repartition) else Repartition(one) for one in repartition_sources)
        known = {*sources, *(one.name for one in internal)}
        groups = tuple(tuple(group) for group in copartitioned)
        if strange := sorted({name for group in groups for name in group} - known):
            raise ConfigError(f"copartitioned: {', '.join(strange)}: must be among the sources of the subtopology")
        for store in named:
            if store.source is not None and store.source not in sources:
                raise ConfigError(f"store {store.name}: source = {store.source!r}: must be one of {', '.join(sources)}")
        if pattern is not None:
            _refuse_pattern(pattern)
        shape = SubtopologyShape(tuple(sources), named, copartition=groups, pattern=pattern)
        return cls(shape, {sink: sink for sink in sinks}, internal)

    @property
    def names(self) -> frozenset[str]:
        """What it reads, as the program names it."""
        patterns = [] if self.shape.pattern is None else [self.shape.pattern]
        return frozenset({*self.shape.sources, *(one.name for one in self.repartition), *patterns})


def _refuse_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as wrong:
        raise ConfigError(f"sources_pattern = {pattern!r}: cannot be read: {wrong}") from None


def bind_flows(flows: Sequence[Flow], application_id: str) -> tuple[Flow, ...]:
    """With the full names of internal topics: a sink that some subtopology reads as a repartition topic is that one.

    Raises ``ConfigError`` for a name that stands for two things. What is bound already stays as it is.
    """
    internal = _internal(flows)
    full = {name: repartition_topic(application_id, name) for name in internal}
    told = {full[name]: RepartitionTopic(full[name], one.partitions) for name, one in internal.items()}
    both = sorted({source for flow in flows for source in flow.shape.sources} & internal.keys())
    if both:
        raise ConfigError(
            f"topology: {', '.join(both)}: named among sources and among repartition_sources; rename one of both"
        )
    return tuple(_bind_flow(flow, full, told) for flow in flows)


def _internal(flows: Sequence[Flow]) -> dict[str, Repartition]:
    found: dict[str, Repartition] = {}
    for one in (one for flow in flows for one in flow.repartition):
        other = found.setdefault(one.name, one)
        if other != one and None not in (other.partitions, one.partitions):
            raise ConfigError(
                f"repartition topic {one.name}: partitions = {other.partitions} and {one.partitions}: must be told alike"
            )
        found[one.name] = other if other.partitions is not None else one
    return found


def _bind_flow(flow: Flow, full: Mapping[str, str], told: Mapping[str, RepartitionTopic]) -> Flow:
    sinks = {name: full.get(topic, topic) for name, topic in flow.sinks.items()}
    mine = tuple(told[full[one.name]] for one in flow.repartition)
    shape = replace(
        flow.shape,
        sources=(*flow.shape.sources, *(one.topic for one in mine)),
        repartition=(*flow.shape.repartition, *mine),
        sinks=tuple(sinks.values()),
        copartition=tuple(tuple(full.get(name, name) for name in group) for group in flow.shape.copartition),
    )
    return Flow(shape, sinks)


def topology_shape(flows: Sequence[Flow]) -> TopologyShape:
    """What the group must know of bound flows. Raises ``ConfigError`` for none, or a store name used twice."""
    shape = TopologyShape(tuple(flow.shape for flow in flows))
    names = [store.name for sub in shape.subtopologies for store in sub.stores]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not flows or twice:
        raise ConfigError(f"topology: {'store names used twice: ' + ', '.join(twice) if twice else 'is empty'}")
    return shape
