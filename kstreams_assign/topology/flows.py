"""``Flow``: a subtopology as a program declares it, and the full names of its internal topics.

The functions that process records (``worker.task``) and partition counts (``internal``) do not belong here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TopologyShape, repartition_topic

OnErrorChoice = Literal["fail", "skip", "dead_letter"]
TimersClock = Literal["stream", "wall"]


class KeyedTimers(NamedTuple):
    """The keyed timers of a subtopology: the clock that they are due on, and the store that keeps them."""

    clock: TimersClock
    store: str

    @classmethod
    def of(cls, clock_key: str, clock: object, store_key: str, store: object) -> KeyedTimers:
        """Check what was declared under these keys. Raises ``ConfigError``."""
        if clock not in get_args(TimersClock):
            raise ConfigError(f"{clock_key} = {clock!r}: must be {CLOCKS}")
        if not isinstance(store, str) or not store:
            raise ConfigError(f"{store_key} = {store!r}: must be a non-empty string, the name of a store")
        return cls(clock, store)  # type: ignore[arg-type]


CLOCKS = " or ".join(map(repr, get_args(TimersClock)))


@dataclass(frozen=True, slots=True)
class Repartition:
    """A repartition topic, by its short name: ``words`` is the topic ``<application id>-words-repartition``.

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
    """A subtopology without its code. ``sinks``: the program's name of a topic -> the topic.

    ``on_error``: what becomes of a record that cannot be processed; a function gets the record and the error.
    ``timers``: its keyed timers, if it has any; their store is among those of the shape. ``in_time_order``: whether a
    task that reads several topics gets the oldest record of all first.

    As declared, ``shape`` lacks the ``repartition`` topics: their full names need the application id. ``bind_flows``
    adds them.
    """

    shape: SubtopologyShape
    sinks: Mapping[str, str] = field(default_factory=dict)
    repartition: tuple[Repartition, ...] = ()
    on_error: OnErrorChoice | Callable[[Any, Exception], str] = "fail"
    timers: KeyedTimers | None = None
    in_time_order: bool = True

    @classmethod
    def of(
        cls,
        sources: Sequence[str],
        stores: Sequence[str | Store] = (),
        sinks: Sequence[str] = (),
        repartition_sources: Sequence[str | Repartition] = (),
        copartitioned: Iterable[Sequence[str]] = (),
        pattern: str | None = None,
        on_error: OnErrorChoice | Callable[[Any, Exception], str] = "fail",
        timers: KeyedTimers | None = None,
        *,
        in_time_order: bool = True,
    ) -> Flow:
        """Declare a subtopology; stores and repartition topics may be given by name. Raises ``ConfigError``."""
        named = tuple(store if isinstance(store, Store) else Store(store) for store in stores)
        if timers is not None:
            named = (*named, _timers_store(timers.store, named))
        internal = tuple(
            source if isinstance(source, Repartition) else Repartition(source) for source in repartition_sources
        )
        known = {*sources, *(repartition.name for repartition in internal)}
        groups = tuple(tuple(group) for group in copartitioned)
        if strange := sorted({name for group in groups for name in group} - known):
            raise ConfigError(
                f"copartitioned: {', '.join(strange)}: must be among the sources of the subtopology, which are "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        for store in named:
            if store.source is not None and store.source not in sources:
                raise ConfigError(
                    f"store {store.name}: source = {store.source!r}: must be one of "
                    f"{', '.join(sources) or 'the sources'}"
                )
        _refuse_two_tables(named)
        if pattern is not None:
            _refuse_pattern(pattern)
        shape = SubtopologyShape(tuple(sources), named, copartition=groups, pattern=pattern)
        return cls(shape, {sink: sink for sink in sinks}, internal, on_error, timers, in_time_order)

    @property
    def names(self) -> frozenset[str]:
        """The topics and the pattern that it reads, as the program names them."""
        patterns = [] if self.shape.pattern is None else [self.shape.pattern]
        return frozenset({*self.shape.sources, *(topic.name for topic in self.repartition), *patterns})


def check_in_time_order(key: str, value: object) -> None:
    """Raise ``ConfigError`` unless this is true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{key} = {value!r}: must be true or false")


def _timers_store(name: str, others: Iterable[Store]) -> Store:
    if name in {store.name for store in others}:
        raise ConfigError(f"timers_store = {name!r}: is also among the stores; the timers need a store of their own")
    return Store(name)


def _refuse_two_tables(stores: Iterable[Store]) -> None:
    """Raise ``ConfigError`` for two stores with one source: a changelog restores one store."""
    table_of: dict[str, str] = {}
    for store in stores:
        if store.source is not None and table_of.setdefault(store.source, store.name) != store.name:
            raise ConfigError(
                f"stores {table_of[store.source]} and {store.name}: source = {store.source!r}: a topic can be the "
                f"changelog of one store; leave out source of one of them: it then has a changelog of its own"
            )


def _refuse_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as wrong:
        raise ConfigError(f"sources_pattern = {pattern!r}: is not a valid Python regular expression: {wrong}") from None


def bind_flows(flows: Sequence[Flow], application_id: str) -> tuple[Flow, ...]:
    """Return the flows with the full names of internal topics.

    A sink that another subtopology reads as a repartition topic becomes that topic. Bound flows stay as they are.
    Raises ``ConfigError`` for a name that is both a source and a repartition source.
    """
    internal = _internal(flows)
    full = {name: repartition_topic(application_id, name) for name in internal}
    by_topic = {full[name]: RepartitionTopic(full[name], topic.partitions) for name, topic in internal.items()}
    both = sorted({source for flow in flows for source in flow.shape.sources} & internal.keys())
    if both:
        raise ConfigError(
            f"topology: {', '.join(both)}: named among sources and among repartition_sources; rename one of the two"
        )
    return tuple(_bind_flow(flow, full, by_topic) for flow in flows)


def _internal(flows: Sequence[Flow]) -> dict[str, Repartition]:
    by_name: dict[str, Repartition] = {}
    for repartition in chain.from_iterable(flow.repartition for flow in flows):
        other = by_name.setdefault(repartition.name, repartition)
        if other != repartition and None not in (other.partitions, repartition.partitions):
            raise ConfigError(
                f"repartition topic {repartition.name}: partitions = {other.partitions} and {repartition.partitions}: "
                f"must be the same in each subtopology that reads it"
            )
        by_name[repartition.name] = other if other.partitions is not None else repartition
    return by_name


def _bind_flow(flow: Flow, full: Mapping[str, str], by_topic: Mapping[str, RepartitionTopic]) -> Flow:
    sinks = {name: full.get(topic, topic) for name, topic in flow.sinks.items()}
    mine = tuple(by_topic[full[topic.name]] for topic in flow.repartition)
    shape = replace(
        flow.shape,
        sources=(*flow.shape.sources, *(repartition.topic for repartition in mine)),
        repartition=(*flow.shape.repartition, *mine),
        sinks=tuple(sinks.values()),
        copartition=tuple(tuple(full.get(name, name) for name in group) for group in flow.shape.copartition),
    )
    return replace(flow, shape=shape, sinks=sinks, repartition=())


def refuse_endless_letters(flows: Sequence[Flow], dead_letters: str | None) -> None:
    """Raise ``ConfigError`` for a bound flow that would send letters about dead letters, without end.

    ``dead_letters``: the topic that it sends them to.
    """
    for number, flow in enumerate(flows):
        if dead_letters is not None and flow.on_error == "dead_letter" and flow.shape.reads(dead_letters):
            raise ConfigError(
                f"topology: subtopology {number} reads the dead-letter topic {dead_letters}, and its on_error = "
                f"'dead_letter' sends each bad letter there again, without end; set its on_error to 'fail' or 'skip', "
                f"or leave the topic out of what it reads"
            )


def topology_shape(flows: Sequence[Flow]) -> TopologyShape:
    """Return the topology of bound flows. Raises ``ConfigError`` if there is none, or if two stores share a name."""
    shape = TopologyShape(tuple(flow.shape for flow in flows))
    names = [store.name for sub in shape.subtopologies for store in sub.stores]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not flows or twice:
        raise ConfigError(
            f"topology: store names used twice: {', '.join(twice)}; a name must be unique in the application"
            if twice
            else "topology: is empty; it must have at least one subtopology"
        )
    return shape
