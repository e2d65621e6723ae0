"""Fields of a request, each read strictly: of the right kind and in range, or a ``ConfigError`` that names it.

What lives here: the JSON forms of the shared nouns. What must not: which command has which fields.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from kstreams_assign.errors import ConfigError, InvalidTaskId
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.peer.lines import Json

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UUID_TEXT = re.compile(r"(?=.{1,36}\Z)[0-9a-fA-F]+(?:-[0-9a-fA-F]+){4}")
UUID_BITS = (32, 16, 16, 16, 48)

Kind = TypeVar("Kind")


def need(source: Json, key: str) -> Any:
    """The value of a field that must be there and not null."""
    value = source.get(key)
    if value is None:
        raise ConfigError(f"missing {key}")
    return value


def refuse(source: Json, key: str, why: str) -> None:
    """Refuse a field that has no place in this form of the request."""
    if key in source:
        raise ConfigError(f"{key} {why}")


def number(value: object, name: str, greatest: int = INT64_MAX) -> int:
    """A whole number of 64 (or, with ``greatest``, fewer) bits."""
    if type(value) is not int or not -greatest - 1 <= value <= greatest:
        raise ConfigError(f"{name} is {_shown(value)}; it must be a whole number of {greatest.bit_length() + 1} bits")
    return value


def number_or(source: Json, key: str, fallback: int, greatest: int = INT64_MAX) -> int:
    return number(source[key], key, greatest) if key in source else fallback


def text(value: object, name: str) -> str:
    return _of_kind(value, str, name, "text")


def items(source: Json, key: str) -> list[Any]:
    """A list; nothing where the field is missing or null."""
    value = source.get(key)
    return [] if value is None else _of_kind(value, list, key, "a list")


def members(source: Json, key: str) -> Json:
    """An object; nothing where the field is missing or null."""
    value = source.get(key)
    return {} if value is None else mapping(value, key)


def mapping(value: object, name: str) -> Json:
    return _of_kind(value, dict, name, "an object")


def texts(source: Json, key: str) -> dict[str, str]:
    """An object of texts."""
    return {name: text(value, f"{key}.{name}") for name, value in members(source, key).items()}


def task(value: object) -> TaskId:
    """A task id whose numbers fit the wire."""
    parsed = TaskId.parse(text(value, "a task id"))
    if max(parsed.subtopology, parsed.partition) > INT32_MAX:
        raise InvalidTaskId(f"{_shown(value)} is not a task id: its numbers have 32 bits")
    return parsed


def tasks(source: Json, key: str) -> list[TaskId]:
    return [task(one) for one in items(source, key)]


def longs(source: Json, key: str) -> dict[TaskId, int]:
    """Task -> whole number of 64 bits, in the order of the object."""
    return {task(name): number(value, f"{key}.{name}") for name, value in members(source, key).items()}


def process_id(source: Json) -> UUID:
    """As ``java.util.UUID.fromString`` reads it: each of the five groups may be short."""
    written = text(need(source, "process_id"), "process_id")
    if not UUID_TEXT.fullmatch(written):
        raise ConfigError(f"process_id is {written!r}; it must be a UUID")
    value = 0
    for bits, group in zip(UUID_BITS, written.split("-"), strict=True):
        value = value << bits | int(group, 16) & (1 << bits) - 1
    return UUID(int=value)


def raw_bytes(source: Json) -> bytes:
    """The bytes of ``hex``."""
    try:
        return unhexlify(text(need(source, "hex"), "hex"))
    except ValueError as wrong:
        raise ConfigError(f"hex: {wrong}") from None


def topic_partitions(value: object, name: str) -> tuple[TopicPartition, ...]:
    """From ``[["topic", 1]]``, each once."""
    pairs: list[object] = _of_kind(value, list, name, "a list")
    return tuple(dict.fromkeys(_topic_partition(pair, name) for pair in pairs))


def hosts(source: Json, key: str) -> dict[HostInfo, tuple[TopicPartition, ...]]:
    """From ``[{"host", "port", "partitions"}]``."""
    found = {}
    for one in items(source, key):
        entry = mapping(one, key)
        host = HostInfo(text(need(entry, "host"), "host"), number(need(entry, "port"), "port", INT32_MAX))
        found[host] = topic_partitions(need(entry, "partitions"), f"{key}.partitions")
    return found


def _topic_partition(pair: object, name: str) -> TopicPartition:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ConfigError(f'{name} has {_shown(pair)}; an input partition is written ["topic", 1]')
    return TopicPartition(text(pair[0], f"{name}: topic"), number(pair[1], f"{name}: partition", INT32_MAX))


def _of_kind(value: object, kind: Callable[..., Kind], name: str, called: str) -> Kind:
    if not isinstance(value, kind):  # type: ignore[arg-type]
        raise ConfigError(f"{name} is {_shown(value)}; it must be {called}")
    return value  # type: ignore[return-value]


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
