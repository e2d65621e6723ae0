"""What the documentation's reference is generated from: every setting, event and error with its description.

The descriptions stand beside what they describe: below the fields of ``Config`` and of the types in
``kstreams_assign.events``, and in the docstrings of ``kstreams_assign.errors``. What must not live here: how a page
looks.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import getdoc, getsource
from itertools import pairwise
from logging import getLevelName
from typing import Any, get_args, get_type_hints

from kstreams_assign.allowed_values import CHOICES, COSTS, DISK, MEMORY, RANGES
from kstreams_assign.config import TOKEN_CHARACTERS_MAX, TOKEN_CHARACTERS_MIN, Config
from kstreams_assign.errors import KStreamsAssignError
from kstreams_assign.events import EVENTS


@dataclass(frozen=True, slots=True)
class Setting:
    """Describe one setting for a reference."""

    key: str
    default: str
    """As TOML; ``required`` where there is none, empty where the setting is off without a value."""
    allowed: str
    unit: str
    """Unit of a number; empty for other settings and for plain counts."""
    kafka: str
    """Kafka's name of the setting; empty for a setting that Kafka does not have."""
    description: str
    """One or a few sentences: the text below the field in ``Config``."""


_NOT_IN_KAFKA = frozenset(
    {
        *(
            "process_name",
            "client",
            "warmup_queue",
            "early_probing",
            "early_probing_floor_ms",
            "assignor",
            "user_data",
            "sigterm",
            "balance_by",
        ),
        *("group_membership_operation", "max_poll_bytes", "buffered_records_max", "http", "socket", "socket_token"),
        *("query", "query_token"),
        *("warm_join", "warm_join_timeout_ms", "warm_join_max_bytes"),
        *("memory_limit_bytes", "rocksdb_block_cache_bytes", "rocksdb_write_buffers_bytes"),
        *("restore_buffer_max_bytes", "output_buffer_max_bytes"),
    }
)
_KAFKA_NAMES: Mapping[str, str] = {
    "client_tags": "client.tag.*",
    "rack_aware_assignment_traffic_cost": "rack.aware.assignment.traffic_cost",
    "rack_aware_assignment_non_overlap_cost": "rack.aware.assignment.non_overlap_cost",
}
_ALLOWED: Mapping[str, str] = {
    "client": "a table of strings",
    "client_tags": "a table of strings",
    "rack_aware_assignment_tags": "a list of strings",
    "early_probing": "true or false",
    "warmup_queue": "true or false",
    "warm_join": "true or false",
    "bootstrap_servers": "HOST:PORT, several separated by commas",
    "application_server": "HOST:PORT",
    "http": "HOST:PORT",
    "query": "HOST:PORT",
    "query_token": f"a string of {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} characters",
    "socket_token": f"a string of {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} characters",
    **{key: str(allowed) for key, allowed in (*RANGES.items(), *COSTS.items(), *MEMORY.items(), *DISK.items())},
    **{key: ", ".join(choices) for key, choices in CHOICES.items()},
}
_UNITS: Mapping[str, str] = {"ms": "milliseconds", "bytes": "bytes", "lag": "offsets", "records": "records"}


def settings() -> tuple[Setting, ...]:
    """Return a description of every setting, in the order of ``Config``; the documentation is generated from it."""
    descriptions = _field_descriptions(Config)
    return tuple(
        Setting(
            key=each.name,
            default=_default(each),
            allowed=_ALLOWED.get(each.name, "a non-empty string"),
            unit=_UNITS.get(each.name.removesuffix("_max").rpartition("_")[2], ""),
            kafka="" if each.name in _NOT_IN_KAFKA else _KAFKA_NAMES.get(each.name, each.name.replace("_", ".")),
            description=descriptions[each.name],
        )
        for each in fields(Config)
    )


def _default(setting: Field[Any]) -> str:
    if setting.default_factory is not MISSING:
        return "{}"
    if setting.default is MISSING:
        return "required"
    value = setting.default
    return "" if value is None else json.dumps(list(value) if isinstance(value, tuple) else value)


def _field_descriptions(kind: type) -> dict[str, str]:
    """Return the string literal below each field of a class, in one line; empty for a field without one."""
    (tree,) = ast.parse(getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    described = {}
    for statement, below in pairwise([*tree.body, ast.Pass()]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            described[statement.target.id] = _in_line(str(text))
    return described


@dataclass(frozen=True, slots=True)
class EventField:
    """Describe one field of an event."""

    name: str
    type: str
    """As in Python: ``tuple[str, ...]``."""
    description: str


@dataclass(frozen=True, slots=True)
class EventDescription:
    """Describe one kind of event for a reference."""

    event: str
    """Name, as in the field ``event`` of JSON; empty for a nested value."""
    type: str
    """Name of its type in ``kstreams_assign.events``; for a nested value the name that other fields give as their
    type."""
    level: str
    """Level in the log, such as ``WARNING``; empty for a nested value."""
    when: str
    """When it happens."""
    fields: tuple[EventField, ...]
    """All fields, in the order of JSON."""


_COMMON_FIELDS: Mapping[str, str] = {
    "active": "Active tasks, as ``0_3``.",
    "standby": "Standby tasks.",
    "warmup": "Warm-up tasks.",
    "task": "The task, as ``0_3``.",
    "tasks": "The tasks.",
    "generation": "Generation of the group.",
    "assignor": "Assignor that decided.",
    "members": "Number of members.",
    "path": "The directory.",
    "socket": "Address of the socket.",
    "url": "Address of the status page.",
    "start_offset": "Offset at which it begins.",
    "producer_id": "Id of its producer.",
    "reason": "Why.",
    "warnings": "What is wrong, and what to do.",
}


def events() -> tuple[EventDescription, ...]:
    """Return a description of every event, in groups: membership, tasks, commits, process."""
    return tuple(_describe(kind, kind.name, getLevelName(kind.level)) for kind in EVENTS)


def event_values() -> tuple[EventDescription, ...]:
    """Return a description of each type that fields of events have beside plain ones, such as ``TaskStatus``."""
    hints = [hint for kind in EVENTS for hint in get_type_hints(kind).values()]
    kinds = dict.fromkeys(
        part for hint in hints for part in get_args(hint) if isinstance(part, type) and is_dataclass(part)
    )
    return tuple(_describe(kind, "", "") for kind in kinds)


def _describe(kind: type, event: str, level: str) -> EventDescription:
    described: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        described |= _field_descriptions(each)
    parts = [
        EventField(field.name, str(field.type), described[field.name] or _COMMON_FIELDS.get(field.name, ""))
        for field in fields(kind)
    ]
    return EventDescription(event, kind.__name__, level, _in_line(getdoc(kind) or ""), tuple(parts))


@dataclass(frozen=True, slots=True)
class ErrorDescription:
    """Describe one error for a reference."""

    name: str
    base: str
    """The error that it is a kind of."""
    meaning: str
    """What happened."""
    remedy: str
    """What the application can do."""
    attributes: str
    """What its attributes hold; empty for an error without its own."""


def errors() -> tuple[ErrorDescription, ...]:
    """Return a description of every error, each after the error that it is a kind of."""
    return tuple(_describe_error(error) for error in _error_tree(KStreamsAssignError))


_RUN: Mapping[str, str] = {
    "ConfigError": (
        "The brokers refuse the settings of ``client``, a sink topic or the topic of a global table does not exist, "
        "``http`` or ``query`` cannot be listened at, a store's changelog is of a kind that cannot be read here, or "
        "other programs use the group of this ``application_id``."
    ),
    "BrokerUnavailable": "No broker answers within 30 seconds of the start.",
    "BrokerError": "The brokers refuse a request for good: a right is missing, or a version is not supported.",
    "AssignmentRefused": "A source topic does not exist, or the leader could not assign tasks.",
    "ShutdownRequested": "A member called ``shut_application_down``.",
    "TopologyMismatch": "Members run different topologies, or an internal topic has a wrong number of partitions.",
    "MalformedUserData": "The leader's assignment cannot be read.",
    "InstanceFenced": "Another process joined with the same ``group_instance_id``.",
    "RecordRefused": "The brokers refuse an output for good.",
    "SerializationError": "A function lets it through, and ``on_error`` of its subtopology is ``fail``.",
    "RegistryError": "The schema registry refuses a request of a function, or does not answer.",
}
_NOT_JOINED = {"RecordRefused", "BrokerUnavailable", "SerializationError", "RegistryError"}
_JOINED: Mapping[str, str] = {
    **{name: when for name, when in _RUN.items() if name not in _NOT_JOINED},
    "ConfigError": "The brokers refuse the settings of ``client``, or other programs use the group.",
}
_NO_CODE = {
    "ConfigError": (
        "``user_data`` is ``kip441``, or a member of Kafka Streams before 2.8 is in the group: neither can express the "
        "request."
    )
}
_IN_GENERATION: Mapping[str, str] = {
    "CommitDeferred": "A rebalance is under way.",
    "CommitRefused": "This member is no longer in the generation.",
}
_SIDECAR: Mapping[str, str] = {
    "SidecarDisconnected": "The worker has closed the connection, did not answer in time, or does not listen.",
    "SidecarRefused": "The worker refuses the request; ``code`` says why.",
    "MalformedFrame": "An argument is of a type that cannot be sent, or bytes of the worker cannot be read.",
}
_QUERIED: Mapping[str, str] = {
    "StoreNotAvailable": "No process could answer in time, or the worker is not running.",
    "QueryRefused": "The token is wrong, or the topology declares no such store or partition.",
    "ConfigError": "The key is not bytes, or a number is wrong.",
}
_DRIVEN: Mapping[str, str] = {
    "ConfigError": "The topology does not have that topic or partition, or a number is wrong.",
    "WorkerNotRunning": "The driver is closed, or an error has ended it.",
    "RecordRefused": "A function emits to a partition that does not exist.",
}
_NOT_READABLE = "The global table is not complete, is built again, or the worker is not running."
_PAUSE = {
    "TaskNotLocal": "The task is not active here, or leaves before the commit, or the worker is not running.",
    "ConfigError": "The argument is no task and no subtopology of the topology.",
    "BrokerUnavailable": "It is not committed in ``timeout_s``; the worker goes on trying.",
}

_REGISTRY = {"RegistryError": "The schema registry refuses a request, or does not answer."}
_UNREADABLE: Mapping[str, str] = {
    "SerializationError": "The serde cannot read the bytes of a key or value.",
    **_REGISTRY,
}
_CODED: Mapping[str, str] = {
    "SerializationError": "The serde cannot write a key or value, or cannot read what the store has.",
    **_REGISTRY,
}
RAISED_BY: Mapping[str, Mapping[str, str]] = {
    "Config": {"ConfigError": "A setting is missing, unknown or wrong."},
    "Config.from_mapping": {"ConfigError": "A setting is missing, unknown or wrong."},
    "Config.from_toml": {"ConfigError": "The file cannot be read, or a setting is missing, unknown or wrong."},
    "Config.leaves": {"ConfigError": "The argument is none of the three operations."},
    "Config.refuse_unless_apache": {"ConfigError": "``user_data`` is ``kip441``."},
    "TaskId.parse": {"InvalidTaskId": "The string is not a task id."},
    "Subtopology": {
        "ConfigError": "It has no sources, a function that does not take a task and records, or a wrong argument."
    },
    "Repartition": {"ConfigError": "The name is empty, or the number of partitions is not positive."},
    "GlobalTable": {"ConfigError": "The name cannot be a store's name, or the topic is missing."},
    "ReadOnlyKeyValueStore": {"StateError": _NOT_READABLE},
    "ReadOnlyTimestampedKeyValueStore": {"StateError": _NOT_READABLE},
    "Worker": {
        "ConfigError": (
            "Settings and topology contradict each other, a topic has two readers, or a name is impossible."
        ),
        "StateDirectoryLocked": "Another process uses ``state_dir``.",
        "StateError": "``state_dir`` cannot be created, read or written.",
    },
    "Worker.run": _RUN,
    "Worker.close": {"ConfigError": "The argument is none of the three operations."},
    "Worker.shut_application_down": _NO_CODE,
    "Worker.locate": {
        "KeyNotLocal": "The worker is not running.",
        "ConfigError": "The topology declares no such store.",
        "BrokerError": "The brokers do not answer, or refuse to describe the source topics.",
    },
    "Worker.read": {
        "KeyNotLocal": "The task is in another process, did not answer in time, or the worker is not running.",
        "ConfigError": "The topology declares no such store.",
        "BrokerError": "The brokers do not answer, or refuse to describe the source topics.",
    },
    "Worker.query": _QUERIED,
    "QueryClient": {"ConfigError": "An address is not ``HOST:PORT``, or there is none."},
    "QueryClient.query": _QUERIED,
    "Worker.global_table": {"ConfigError": "The worker declares no such global table."},
    "Worker.timestamped_global_table": {"ConfigError": "The worker declares no such timestamped global table."},
    "Task.global_table": {"ConfigError": "The worker declares no such global table."},
    "Task.timestamped_global_table": {"ConfigError": "The worker declares no such timestamped global table."},
    "Worker.pause": _PAUSE,
    "Worker.resume": _PAUSE,
    "Task.store": {"ConfigError": "The subtopology declares no such store, or a type has no serde."},
    "Task.timestamped_store": {"ConfigError": "The subtopology declares no such timestamped store."},
    "Task.sink": {"ConfigError": "The topic is not among the sinks of the subtopology, or a type has no serde."},
    "Task.emit": {"ConfigError": "The topic is not among the sinks of the subtopology."},
    "Task.partition_time": {"ConfigError": "The task does not read that topic."},
    "Task.every": {"ConfigError": "The interval, the clock or the function is wrong."},
    "Store": {"ConfigError": "``ttl_ms`` or ``ttl_clock`` is not possible, or ``ttl_ms`` stands beside ``source``."},
    "TopologyTestDriver": {
        "ConfigError": "An argument or a setting is wrong, or the topology contradicts itself.",
        "TopologyMismatch": "Numbers of partitions contradict each other.",
    },
    "TopologyTestDriver.pipe": _DRIVEN,
    "TopologyTestDriver.pipe_many": _DRIVEN,
    "TopologyTestDriver.advance": _DRIVEN,
    "TopologyTestDriver.commit": _DRIVEN,
    "TopologyTestDriver.read": {"ConfigError": "The topology does not write to the topic."},
    "TopologyTestDriver.input_topic": {"ConfigError": "No subtopology reads the topic, or a type has no serde."},
    "TopologyTestDriver.output_topic": {"ConfigError": "The topology does not write to it, or a type has no serde."},
    "TopologyTestDriver.store": {
        "ConfigError": "The topology declares no such store, has no such partition, or a type has no serde."
    },
    "TopologyTestDriver.timers": {"ConfigError": "The topology declares no such store, or has no such partition."},
    "TopologyTestDriver.timestamped_store": {
        "ConfigError": "The topology declares no such timestamped store, or has no such partition."
    },
    "Batch": _UNREADABLE,
    "TypedKeyValueStore": _CODED,
    "TypedTimestampedKeyValueStore": _CODED,
    "Sink": _CODED,
    "InputTopic": {**_DRIVEN, "SerializationError": "The serde cannot write the key or value."},
    "OutputTopic": _UNREADABLE,
    "Serdes.dataclass": {"ConfigError": "The class is no dataclass, or has a field that JSON cannot hold."},
    "registry_serde": {
        "ConfigError": "An argument is neither a serializer nor None.",
        "ExtraMissing": "The extra ``registry`` is not installed.",
    },
    "TopologyTestDriver.global_table": {"ConfigError": "The driver has no such global table."},
    "TopologyTestDriver.timestamped_global_table": {"ConfigError": "The driver has no such timestamped global table."},
    "GroupMember": {
        "ConfigError": (
            "Settings and topology contradict each other, a topic has two readers, or the brokers refuse the settings "
            "of ``client``."
        ),
        "StateDirectoryLocked": "Another member uses ``member_dir``.",
        "StateError": "``member_dir`` cannot be created or locked.",
        "BrokerUnavailable": "No broker answers within 30 seconds.",
        "BrokerError": "The brokers refuse a request for good.",
    },
    "GroupMember.poll": _JOINED,
    "GroupMember.commit": {
        **_IN_GENERATION,
        "PartitionsAbsent": "The brokers do not know some of the partitions; all other offsets are committed.",
        "BrokerError": "The brokers refuse the commit, or do not answer in time.",
    },
    "GroupMember.group_metadata": _IN_GENERATION,
    "GroupMember.committed": {"BrokerError": "The brokers refuse the question, or do not answer in time."},
    "GroupMember.shut_application_down": _NO_CODE,
    "SidecarClient": _SIDECAR,
    "AsyncSidecarClient": _SIDECAR,
}
"""Call of the public API -> the errors that can come out of it, each with when.

Their base classes are not repeated. A class stands for its constructor, and for methods without an entry of their own.
"""
NOT_RAISED: Mapping[str, str] = {
    "StoreDamaged": "The worker restores the store from its changelogs.",
    "OffsetOutOfRange": "The worker starts the store over, or reads input where ``auto_offset_reset`` says.",
    "DeliveryFailed": "The worker goes back to the last commit, unless the error is a ``RecordRefused``.",
    "TransactionAborted": "The worker goes back to the last commit.",
    "TaskMigrated": "The worker drops the work; the task's next owner repeats it.",
    "LocalBrokerError": "Only ``kstreams_assign.local`` and its commands raise it.",
    "GroupNotFound": "Only commands raise it.",
    "TopicNotFound": "Only commands raise it.",
    "NotAStreamsGroup": "Only commands raise it.",
    "SparkError": "Only commands raise it.",
    "SimulationStuck": "Only commands raise it.",
}
"""Error that comes out of no call in ``RAISED_BY`` -> what happens in its place, or what raises it."""


def _error_tree(error: type[Exception]) -> list[type[Exception]]:
    below = [kind for each in error.__subclasses__() for kind in _error_tree(each)]
    return [error, *below] if error.__module__ == KStreamsAssignError.__module__ else []


def _describe_error(error: type[Exception]) -> ErrorDescription:
    meaning, remedy, *attributes = map(_in_line, (getdoc(error) or "").split("\n\n"))
    base = error.__base__.__name__ if error.__base__ else ""
    return ErrorDescription(error.__name__, base, meaning, remedy, " ".join(attributes))


def raised_by(call: str) -> list[tuple[ErrorDescription, str]]:
    """Return the errors that can come out of a call of ``RAISED_BY``, each with when."""
    described = {each.name: each for each in errors()}
    return [(described[name], when) for name, when in RAISED_BY[call].items()]


def _in_line(text: str) -> str:
    return " ".join(text.split())
