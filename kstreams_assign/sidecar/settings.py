"""The sidecar's file: the settings of ``Config``, and the topology, which a library's user writes as code.

Everything is checked here, before anything is started: a wrong value is refused with its key, the value and what is
allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kstreams_assign.client_settings import unknown_key
from kstreams_assign.config import Config, read_toml_file
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TTL_CLOCKS, TTL_MS_MAX, Store
from kstreams_assign.sidecar.address import Address, TcpAddress, read_address
from kstreams_assign.topology.flows import (
    Flow,
    KeyedTimers,
    Repartition,
    bind_flows,
    check_in_time_order,
    topology_shape,
)
from kstreams_assign.topology.global_tables import GlobalTable, checked_global_tables
from kstreams_assign.topology.internal import refuse_wrong_topology
from kstreams_assign.topology.kinds import timestamped_kind
from kstreams_assign.topology.numbering import order_flows
from kstreams_assign.worker.description import described_order
from kstreams_assign.worker.on_error import check_on_error


class Key(NamedTuple):
    """What a key of a table may hold, and what it means; the reference is generated from it."""

    allowed: str
    description: str


TOPOLOGY_KEYS: Mapping[str, Key] = {
    "subtopology": Key("tables", "One table `[[topology.subtopology]]` for each subtopology; its number is its place."),
    "global_table": Key(
        "tables", "One table `[[topology.global_table]]` for each topic that every process holds whole."
    ),
    "description": Key("a file", "Java's `Topology.describe()` as text: gives each subtopology Java's number."),
}
KEYS: Mapping[str, Key] = {
    "sources": Key("topics", "Topics that the subtopology reads: task `0_3` reads partition 3 of each."),
    "sources_pattern": Key(
        "a regular expression", "It also reads every topic whose whole name matches, later ones too."
    ),
    "repartition_sources": Key("names, or tables", "Repartition topics that it reads; the leader creates them."),
    "copartitioned": Key("lists of topics", "Sources that must have the same number of partitions, as for a join."),
    "in_time_order": Key(
        "true, false",
        "Whether a task that reads several topics gets the oldest record of all first, as a join needs it. Default: "
        "true.",
    ),
    "stores": Key("names, or tables", "Stores of each task."),
    "sinks": Key(
        "topics", "Topics that the application may emit to, repartition topics by their short names included."
    ),
    "on_error": Key(
        "fail, skip, dead_letter",
        "What becomes of a record that the application rejects: it may reject none, the record is skipped, or it goes "
        "to `errors_dead_letter_queue_topic_name`. Default: fail.",
    ),
    "timers": Key(
        "stream, wall",
        "Clock of the keyed timers, if the application sets any: the newest timestamp of the task's records, or the "
        "machine's time. Default: no timers.",
    ),
    "timers_store": Key(
        "a non-empty string",
        "Name of the store that keeps the timers; its changelog is `<application_id>-<timers_store>-changelog`. "
        "Default: timers.",
    ),
}
STORE_KEYS: Mapping[str, Key] = {
    "name": Key("a non-empty string", "Name of the store; required."),
    "changelog": Key(
        "true or false", "Whether writes go to a changelog topic, from which the store is restored. Default: true."
    ),
    "source": Key("a topic", "A source of the subtopology that is the store's changelog: the store is a table of it."),
    "type": Key("key_value, timestamped_key_value", "Whether a time is kept beside each value. Default: key_value."),
    "drop_headers": Key("true or false", "Whether headers of changelog records may be lost. Default: false, an error."),
    "ttl_ms": Key(
        f"a whole number, 1 to {TTL_MS_MAX}",
        "Milliseconds after which an entry expires that was not written again. Default: entries stay.",
    ),
    "ttl_clock": Key(
        ", ".join(TTL_CLOCKS),
        "Time by which entries expire: the highest timestamp of the task's records, or the clock of the machine. "
        "Default: stream.",
    ),
    "in_memory": Key("true or false", "Whether the store is kept in memory and not on disk. Default: false."),
    "changelog_config": Key(
        "a table of topic settings", "Settings with which the changelog topic is created, by Kafka's names."
    ),
}
GLOBAL_TABLE_KEYS: Mapping[str, Key] = {
    "name": Key("a non-empty string", "Name of the table, for `get` and `range` with any task; required."),
    "topic": Key("a topic", "Topic whose newest value of each key is the table; required."),
    "type": Key("key_value, timestamped_key_value", "Whether a time is kept beside each value. Default: key_value."),
}
REPARTITION_KEYS: Mapping[str, Key] = {
    "name": Key(
        "a non-empty string", "Short name: `words` is the topic `<application_id>-words-repartition`; required."
    ),
    "partitions": Key(
        "a whole number >= 1", "Default: as many as the largest source of the subtopologies that write to it."
    ),
}


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """What a sidecar runs on."""

    config: Config
    flows: tuple[Flow, ...]
    address: Address
    global_tables: tuple[GlobalTable, ...] = ()

    @classmethod
    def from_toml(cls, path: str | Path, overrides: Iterable[str] = ()) -> SidecarSettings:
        """Read a file, then ``overrides`` (KEY=VALUE) over it.

        Raises ``ConfigError``, also for a file that cannot be read.
        """
        return cls.from_mapping(read_toml(path, overrides))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> SidecarSettings:
        """Build from the file's keys. Raises ``ConfigError``."""
        config = Config.from_mapping({key: value for key, value in settings.items() if key != "topology"})
        flows = bind_flows(read_topology(settings.get("topology")), config.application_id)
        shape = topology_shape(flows)
        refuse_wrong_topology(shape, config.application_id)
        tables = checked_global_tables(read_global_tables(settings["topology"]), shape)
        return cls(config, flows, _address(config), tables)


def read_toml(path: str | Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """A file's keys, with ``overrides`` (KEY=VALUE) over them.

    Raises ``ConfigError``, also for a file that cannot be read.
    """
    over = dict(map(_override, overrides))
    return {**read_toml_file(path), **over}


def _override(pair: str) -> tuple[str, Any]:
    """``KEY=VALUE``; the value is read as TOML, and what is no TOML (a host's name) is a text."""
    key, equals, text = pair.partition("=")
    if not equals or not key:
        raise ConfigError("--set: write KEY=VALUE, as in num_standby_replicas=1; what was given is not shown")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text


def _address(config: Config) -> Address:
    if not isinstance(config.socket, str):
        raise ConfigError(f"socket = {config.socket!r}: must be a path, or tcp://127.0.0.1:PORT; it has no default")
    address, token = read_address(config.socket), config.socket_token
    if isinstance(address, TcpAddress) and token is None:
        raise ConfigError(f"socket = {config.socket!r}: TCP needs a socket_token, as anybody here may connect")
    return address


def read_topology(topology: object) -> tuple[Flow, ...]:
    """The ``[[topology.subtopology]]`` tables, in their order, or as ``topology.description`` numbers them.

    Raises ``ConfigError``.
    """
    topology_table = topology if isinstance(topology, dict) else {}
    tables, described = topology_table.get("subtopology"), topology_table.get("description")
    if not isinstance(tables, list) or not tables or topology_table.keys() - TOPOLOGY_KEYS.keys():
        raise ConfigError("topology: write a [[topology.subtopology]] table for each subtopology; at least one")
    if described is not None and not isinstance(described, str):
        raise ConfigError(f"topology.description = {described!r}: must be a file with Java's Topology.describe()")
    flows = [_flow(f"topology.subtopology[{number}]", table) for number, table in enumerate(tables)]
    return order_flows(flows, described_order(flows, described))


def read_global_tables(topology: Mapping[str, Any]) -> list[GlobalTable]:
    """The ``[[topology.global_table]]`` tables, in their order. Raises ``ConfigError``."""
    tables = topology.get("global_table", [])
    if not isinstance(tables, list):
        raise ConfigError("topology.global_table: write a [[topology.global_table]] table for each global table")
    return [_global_table(f"topology.global_table[{number}]", table) for number, table in enumerate(tables)]


def _global_table(key: str, table: object) -> GlobalTable:
    if not isinstance(table, dict):
        raise ConfigError(f"{key} = {table!r}: must be a table of {', '.join(GLOBAL_TABLE_KEYS)}")
    _refuse_unknown(key, table, GLOBAL_TABLE_KEYS)
    for needed in ("name", "topic"):
        if needed not in table:
            raise ConfigError(f"{key}.{needed}: is missing; it is {GLOBAL_TABLE_KEYS[needed].allowed}")
    timestamped = timestamped_kind(f"{key}.type", table.get("type", "key_value"))
    return GlobalTable(table["name"], table["topic"], timestamped)


def _flow(key: str, table: object) -> Flow:
    if not isinstance(table, dict):
        raise ConfigError(f"{key} = {table!r}: must be a table of {', '.join(KEYS)}")
    _refuse_unknown(key, table, KEYS)
    sources, sinks = (_texts(f"{key}.{name}", table.get(name, [])) for name in ("sources", "sinks"))
    internal = _list(key, table, "repartition_sources", REPARTITION_KEYS)
    pattern = table.get("sources_pattern")
    if pattern is not None and (not isinstance(pattern, str) or not pattern):
        raise ConfigError(f"{key}.sources_pattern = {pattern!r}: must be a regular expression that is not empty")
    if not (sources or internal or pattern):
        raise ConfigError(f"{key}.sources = {sources!r}: must be a list of at least one topic")
    on_error = table.get("on_error", "fail")
    check_on_error(f"{key}.on_error", on_error)
    groups = table.get("copartitioned", [])
    if not isinstance(groups, list):
        raise ConfigError(f"{key}.copartitioned = {groups!r}: must be a list of lists of topics")
    in_time_order = table.get("in_time_order", True)
    check_in_time_order(f"{key}.in_time_order", in_time_order)
    return Flow.of(
        sources,
        [_store(f"{key}.stores[{n}]", store) for n, store in enumerate(_list(key, table, "stores", STORE_KEYS))],
        sinks,
        [_repartition(f"{key}.repartition_sources[{n}]", source) for n, source in enumerate(internal)],
        [_texts(f"{key}.copartitioned[{n}]", group) for n, group in enumerate(groups)],
        pattern,
        on_error,
        _timers(key, table),
        in_time_order=in_time_order,
    )


def _timers(key: str, table: Mapping[str, Any]) -> KeyedTimers | None:
    clock = table.get("timers")
    if clock is None:
        if "timers_store" in table:
            raise ConfigError(f'{key}.timers_store = {table["timers_store"]!r}: needs timers = "stream" or "wall"')
        return None
    return KeyedTimers.of(f"{key}.timers", clock, f"{key}.timers_store", table.get("timers_store", "timers"))


def _list(key: str, table: Mapping[str, Any], name: str, keys: Iterable[str]) -> list[object]:
    entries = table.get(name, [])
    if not isinstance(entries, list):
        raise ConfigError(f"{key}.{name} = {entries!r}: must be a list of names, or of tables of {', '.join(keys)}")
    return entries


def _repartition(key: str, source: object) -> Repartition:
    table = {"name": source} if isinstance(source, str) else source
    if not isinstance(table, dict):
        raise ConfigError(f"{key} = {source!r}: must be a name, or a table of {', '.join(REPARTITION_KEYS)}")
    _refuse_unknown(key, table, REPARTITION_KEYS)
    partitions = table.get("partitions")
    if partitions is not None and (not isinstance(partitions, int) or isinstance(partitions, bool)):
        raise ConfigError(f"{key}.partitions = {partitions!r}: must be a whole number >= 1")
    return Repartition(table.get("name", ""), partitions)


def _store(key: str, store: object) -> Store:
    if isinstance(store, str) and store:
        return Store(store)
    if not isinstance(store, dict):
        raise ConfigError(f"{key} = {store!r}: must be a name, or a table of {', '.join(STORE_KEYS)}")
    _refuse_unknown(key, store, STORE_KEYS)
    name, changelog = store.get("name"), store.get("changelog", True)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{key}.name = {name!r}: must be a non-empty string")
    drops, in_memory = store.get("drop_headers", False), store.get("in_memory", False)
    for word, value in (("changelog", changelog), ("drop_headers", drops), ("in_memory", in_memory)):
        if not isinstance(value, bool):
            raise ConfigError(f"{key}.{word} = {value!r}: must be true or false")
    timestamped = timestamped_kind(f"{key}.type", store.get("type", "key_value"))
    source = store.get("source")
    if source is not None and not isinstance(source, str):
        raise ConfigError(f"{key}.source = {source!r}: must be one of the subtopology's sources")
    ttl_ms, ttl_clock = store.get("ttl_ms"), store.get("ttl_clock", "stream")
    return Store(
        name,
        logged=changelog,
        source=source,
        timestamped=timestamped,
        drop_headers=drops,
        in_memory=in_memory,
        changelog_config=store.get("changelog_config", {}),
        ttl_ms=ttl_ms,
        ttl_clock=ttl_clock,
    )


def _texts(key: str, values: object) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise ConfigError(f"{key} = {values!r}: must be a list of topics")
    return values


def _refuse_unknown(key: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in table:
        if name not in known:
            raise ConfigError(f"{key}.{unknown_key(name, known)}")
