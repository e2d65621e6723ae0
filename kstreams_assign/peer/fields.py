"""Fields of a request, each checked strictly: the right type and range, or a ``ConfigError`` that names the field.

The JSON forms of the shared nouns. The fields of each command are listed elsewhere.
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
    """Return the value of a required field. Raises ``ConfigError`` if it is missing or null."""
    value = source.get(key)
    if value is None:
        raise ConfigError(f"missing {key}")
    return value


def refuse(source: Json, key: str, why: str) -> None:
    """Refuse a field that this form of the request does not allow."""
    if key in source:
        raise ConfigError(f"{key} {why}")


def number(value: object, name: str, greatest: int = INT64_MAX) -> int:
    """Return a whole number of 64 bits, or fewer with ``greatest``."""
    if type(value) is not int or not -greatest - 1 <= value <= greatest:
        raise ConfigError(f"{name} is {_shown(value)}; it must be a whole number of {greatest.bit_length() + 1} bits")
    return value


def number_or(source: Json, key: str, fallback: int, greatest: int = INT64_MAX) -> int:
    return number(source[key], key, greatest) if key in source else fallback


def text(value: object, name: str) -> str:
    return _of_kind(value, str, name, "text")


def items(source: Json, key: str) -> list[Any]:
    """Return a list; empty where the field is missing or null."""
    value = source.get(key)
    return [] if value is None else _of_kind(value, list, key, "a list")


def members(source: Json, key: str) -> Json:
    """Return an object; empty where the field is missing or null."""
    value = source.get(key)
    return {} if value is None else mapping(value, key)


def mapping(value: object, name: str) -> Json:
    return _of_kind(value, dict, name, "an object")


def texts(source: Json, key: str) -> dict[str, str]:
    """Return an object of texts."""
    return {name: text(value, f"{key}.{name}") for name, value in members(source, key).items()}


def task(value: object) -> TaskId:
    """Return a task id whose numbers fit the wire."""
    parsed = TaskId.parse(text(value, "a task id"))
    if max(parsed.subtopology, parsed.partition) > INT32_MAX:
        raise InvalidTaskId(f"{_shown(value)} is not a task id: its numbers have 32 bits")
    return parsed


def tasks(source: Json, key: str) -> list[TaskId]:
    return [task(item) for item in items(source, key)]


def longs(source: Json, key: str) -> dict[TaskId, int]:
    """Return task -> whole number of 64 bits, in the order of the object."""
    return {task(name): number(value, f"{key}.{name}") for name, value in members(source, key).items()}


def process_id(source: Json) -> UUID:
    """Parse as ``java.util.UUID.fromString``: each of the five groups may be short."""
    written = text(need(source, "process_id"), "process_id")
    if not UUID_TEXT.fullmatch(written):
        raise ConfigError(f"process_id is {written!r}; it must be a UUID")
    value = 0
    for bits, group in zip(UUID_BITS, written.split("-"), strict=True):
        value = value << bits | int(group, 16) & (1 << bits) - 1
    return UUID(int=value)


def raw_bytes(source: Json) -> bytes:
    """Return the bytes of ``hex``."""
    try:
        return unhexlify(text(need(source, "hex"), "hex"))
    except ValueError as wrong:
        raise ConfigError(f"hex: {wrong}") from None


def topic_partitions(value: object, name: str) -> tuple[TopicPartition, ...]:
    """Return the partitions of ``[["topic", 1]]``, each once."""
    pairs: list[object] = _of_kind(value, list, name, "a list")
    return tuple(dict.fromkeys(_topic_partition(pair, name) for pair in pairs))


def hosts(source: Json, key: str) -> dict[HostInfo, tuple[TopicPartition, ...]]:
    """Return the host map of ``[{"host", "port", "partitions"}]``."""
    partitions_by_host = {}
    for item in items(source, key):
        entry = mapping(item, key)
        host = HostInfo(text(need(entry, "host"), "host"), number(need(entry, "port"), "port", INT32_MAX))
        partitions_by_host[host] = topic_partitions(need(entry, "partitions"), f"{key}.partitions")
    return partitions_by_host


def _topic_partition(pair: object, name: str) -> TopicPartition:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ConfigError(f'{name} has {_shown(pair)}; write an input partition as ["topic", 1]')
    return TopicPartition(text(pair[0], f"{name}: topic"), number(pair[1], f"{name}: partition", INT32_MAX))


def _of_kind(value: object, kind: Callable[..., Kind], name: str, called: str) -> Kind:
    if not isinstance(value, kind):  # type: ignore[arg-type]
        raise ConfigError(f"{name} is {_shown(value)}; it must be {called}")
    return value  # type: ignore[return-value]


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
