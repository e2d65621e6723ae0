"""Requests as values, checked as ``protocol/sidecar.json`` says: its fields are compiled once to checks.

What lives here: the protocol's data and the types of its fields. What must not: what an op does. Every refusal names
the field, what came and what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kstreams_assign.errors import InvalidTaskId, SidecarRefused
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.timers import NAME_BYTES_MAX
from kstreams_assign.wire import schema_text
from kstreams_assign.wire.framing import LONG_TEXT_MAX, Message

PROTOCOL: Mapping[str, Any] = json.loads(schema_text("sidecar"))
GREETING_BYTES_MAX: int = PROTOCOL["greeting_bytes_max"]
ERROR_CODES = frozenset(PROTOCOL["errors"])
EVENTS = frozenset(PROTOCOL["events"])

ID_MAX = 2**63 - 1
TEXT_MAX = 255
_SHOWN_CHARACTERS = 60

Check = Callable[[Any], Any]
"""A field's value as the worker uses it; raises ``ValueError`` for a value that the type does not allow."""


class Request(NamedTuple):
    """A checked request: ``fields`` has every field of its op, None for an optional field that is absent."""

    id: int
    op: str
    fields: Mapping[str, Any]


def refused(code: str, text: str) -> SidecarRefused:
    """An error of the closed list."""
    assert code in ERROR_CODES, code
    return SidecarRefused(code, text)


def request_id(message: Message) -> int | None:
    """The request's id, or None where it has none that an answer could carry."""
    number = message.get("id")
    return number if type(number) is int and 0 <= number <= ID_MAX else None


def read_request(message: Message) -> Request:
    """Check a message. Raises ``SidecarRefused`` with ``bad_request``."""
    number, op = request_id(message), message.get("op")
    if number is None:
        raise refused("bad_request", f"id = {_shown(message.get('id'))}: must be a whole number from 0 to {ID_MAX}")
    fields = _FIELDS.get(op) if type(op) is str else None
    if fields is None:
        raise refused("bad_request", f"op = {_shown(op)}: must be one of {', '.join(_FIELDS)}")
    if unknown := message.keys() - fields.keys() - {"id", "op"}:
        raise refused("bad_request", f"{op}: no field {_shown(min(unknown))}; it has {', '.join(fields) or 'none'}")
    return Request(number, str(op), {name: _read(str(op), name, field, message) for name, field in fields.items()})


class _Field(NamedTuple):
    check: Check
    allowed: str
    default: Any
    needed: bool
    secret: bool


def _read(op: str, name: str, field: _Field, message: Message) -> Any:
    value = message.get(name)
    if value is None:
        if field.needed:
            raise refused("bad_request", f"{op}: {name} is missing; it is {field.allowed}")
        return field.default
    try:
        return field.check(value)
    except ValueError:
        given = "(not shown)" if field.secret else f"= {_shown(value)}"
        raise refused("bad_request", f"{op}: {name} {given}: must be {field.allowed}") from None


def _shown(value: object) -> str:
    """A value in an error, short whatever it is."""
    if isinstance(value, (str, bytes)):
        value = value[:_SHOWN_CHARACTERS]
    elif isinstance(value, (tuple, list, dict)):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)[: _SHOWN_CHARACTERS * 4]


# --- the types of fields ------------------------------------------------------------


def _require(fits: bool) -> None:
    if not fits:
        raise ValueError


def _integer(spec: Mapping[str, Any]) -> Check:
    least, most = spec["least"], spec["most"]

    def check(value: Any) -> int:
        _require(type(value) is int and least <= value <= most)
        return int(value)

    return check


def _integers(spec: Mapping[str, Any]) -> Check:
    read_element = _integer(spec)

    def check(value: Any) -> tuple[int, ...]:
        _require(type(value) is tuple)
        return tuple(map(read_element, value))

    return check


def _boolean(value: Any) -> bool:
    _require(type(value) is bool)
    return bool(value)


def _text(value: Any) -> str:
    _require(type(value) is str and 0 < len(value) <= TEXT_MAX)
    return str(value)


def _timer_name(value: Any) -> str:
    _require(type(value) is str and len(value.encode()) <= NAME_BYTES_MAX)
    return str(value)


def _long_text(value: Any) -> str:
    _require(type(value) is str and len(value) <= LONG_TEXT_MAX)
    return str(value)


def _task(value: Any) -> TaskId:
    try:
        return TaskId.parse(_text(value))
    except InvalidTaskId:
        raise ValueError from None


def _bytes(value: Any) -> bytes:
    _require(type(value) is bytes)
    return bytes(value)


def _list_of(*kinds: type) -> Check:
    allowed = frozenset(kinds)

    def check(value: Any) -> tuple[Any, ...]:
        _require(type(value) is tuple and allowed.issuperset(map(type, value)))
        return tuple(value)

    return check


def _entries(value: Any) -> tuple[tuple[bytes, bytes], ...]:
    _require(type(value) is tuple)
    for entry in value:
        _require(type(entry) is tuple and len(entry) == 2 and type(entry[0]) is bytes and type(entry[1]) is bytes)
    return tuple(value)


_nullable = (bytes, type(None))
_RECORD_KEYS = {"topic", "key", "value", "headers", "partition", "timestamp_ms"}
_PARTITION_MAX, _OFFSET_MAX, _TIMESTAMP_MAX = 2**31 - 1, 2**63 - 1, 2**63 - 1
_NO_TIMESTAMP = -1
"""Of a record without a time (Kafka: ``RecordBatch.NO_TIMESTAMP``); ``poll`` brings it as it is."""


def _records(value: Any) -> tuple[Mapping[str, Any], ...]:
    _require(type(value) is tuple and all(type(record) is dict for record in value))
    for record in value:
        _require(record.keys() <= _RECORD_KEYS and {"topic", "key", "value"} <= record.keys())
        _text(record["topic"])
        _require(isinstance(record["key"], _nullable) and isinstance(record["value"], _nullable))
        _headers(record.get("headers") or ())
        _optional_number(record.get("partition"), 0, _PARTITION_MAX)
        _optional_number(record.get("timestamp_ms"), _NO_TIMESTAMP, _TIMESTAMP_MAX)
    return tuple(value)


_INPUT_RECORD_KEYS = {"topic", "partition", "offset", "timestamp_ms", "key", "value", "headers"}


def _input_record(value: Any) -> Mapping[str, Any]:
    _require(type(value) is dict and value.keys() - {"headers", "task"} == _INPUT_RECORD_KEYS - {"headers"})
    _text(value["topic"])
    _require(isinstance(value["key"], _nullable) and isinstance(value["value"], _nullable))
    _headers(value.get("headers") or ())
    _number(value["partition"], 0, _PARTITION_MAX)
    _number(value["offset"], 0, _OFFSET_MAX)
    _number(value["timestamp_ms"], _NO_TIMESTAMP, _TIMESTAMP_MAX)
    return {name: field for name, field in value.items() if name in _INPUT_RECORD_KEYS}


def _headers(value: Any) -> None:
    """Allow every name that a record may have in Kafka: an empty one, too, and one of any length."""
    _require(type(value) is tuple)
    for header in value:
        _require(type(header) is tuple and len(header) == 2)
        _require(type(header[0]) is str and isinstance(header[1], _nullable))


def _number(value: Any, least: int, most: int) -> None:
    _require(type(value) is int and least <= value <= most)


def _optional_number(value: Any, least: int, most: int) -> None:
    if value is not None:
        _number(value, least, most)


def _offsets(value: Any) -> dict[TopicPartition, int]:
    _require(type(value) is dict)
    return {_partition(name): _offset(offset) for name, offset in value.items()}


def _partition(name: Any) -> TopicPartition:
    topic, dash, number = _text(name).rpartition("-")
    _require(bool(topic and dash) and number.isdecimal() and number.isascii() and len(number) < 11)
    return TopicPartition(topic, int(number))


def _offset(value: Any) -> int:
    _require(type(value) is int and 0 <= value <= _OFFSET_MAX)
    return int(value)


_TYPES: Mapping[str, Callable[[Mapping[str, Any]], Check]] = {
    "integer": _integer,
    "boolean": lambda _: _boolean,
    "text": lambda _: _text,
    "timer_name": lambda _: _timer_name,
    "task": lambda _: _task,
    "bytes": lambda _: _bytes,
    "bytes_list": lambda _: _list_of(bytes),
    "nullable_bytes_list": lambda _: _list_of(*_nullable),
    "integers": _integers,
    "entries": lambda _: _entries,
    "records": lambda _: _records,
    "input_record": lambda _: _input_record,
    "long_text": lambda _: _long_text,
    "offsets": lambda _: _offsets,
}


def _compiled(spec: Mapping[str, Any]) -> _Field:
    allowed = PROTOCOL["types"][spec["type"]]
    if "least" in spec:
        numbers = "an array of whole numbers" if spec["type"] == "integers" else "a whole number"
        allowed = f"{numbers} from {spec['least']} to {spec['most']}"
    needed = "default" not in spec and not spec.get("optional", False)
    return _Field(_TYPES[spec["type"]](spec), allowed, spec.get("default"), needed, spec.get("secret", False))


_FIELDS: Mapping[str, Mapping[str, _Field]] = {
    op: {name: _compiled(spec) for name, spec in definition["fields"].items()}
    for op, definition in PROTOCOL["ops"].items()
}
