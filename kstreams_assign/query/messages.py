"""Queries and their answers as values, and as messages of ``protocol/query.json``.

Pure. The words for why a process does not answer are those of Java's interactive queries (``FailureReason``). What must
not live here: sockets, and what follows from an answer (``search``).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kstreams_assign.errors import MalformedFrame, QueryRefused
from kstreams_assign.wire import schema_text
from kstreams_assign.wire.framing import Message

PROTOCOL: Mapping[str, Any] = json.loads(schema_text("query"))
VERSION: int = PROTOCOL["version"]
FRAME_BYTES_MAX: int = PROTOCOL["frame_bytes_max"]
GREETING_BYTES_MAX: int = PROTOCOL["greeting_bytes_max"]
NONCE_BYTES: int = PROTOCOL["nonce_bytes"]
ERROR_CODES = frozenset(PROTOCOL["errors"])

TEXT_MAX = 255
ENDPOINTS_MAX = 1_000
ID_MAX = OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
TIMEOUT_MS_MAX = 60_000
IDLE_S = 60.0
"""How long a worker keeps a connection open that no query uses."""
RETRY_MS = 50
"""When to ask again if a process does not say it."""


class Role(StrEnum):
    """What the process that answered has of the task."""

    ACTIVE = "active"
    STANDBY = "standby"
    """A standby, a warm-up, or an active task that is still being restored."""


@dataclass(frozen=True, slots=True)
class Get:
    """A query of one key. ``max_lag`` None: only the active task may answer."""

    store: str
    key: bytes
    partition: int | None = None
    max_lag: int | None = None
    timeout_ms: int = 2_000


@dataclass(frozen=True, slots=True)
class Found:
    """A committed value, or None for a key without a value; ``lag`` in offsets of the store's changelog."""

    value: bytes | None
    role: Role
    lag: int
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Owners:
    """The endpoints of the processes that have the task, as of a generation of the group; -1 is before the first.

    In a streams group the generation is the epoch of the member that answers.
    """

    generation: int
    active: str | None
    standbys: tuple[str, ...]


class Reason(StrEnum):
    """Why a process does not answer, although the query is right."""

    NOT_PRESENT = "not_present"
    NOT_ACTIVE = "not_active"
    NOT_UP_TO_BOUND = "not_up_to_bound"
    NOT_READY = "not_ready"


_REASONS = frozenset(each.value for each in Reason)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A process cannot answer. ``owners``: which process may; ``lag`` of a replica that is too far behind."""

    reason: Reason
    text: str
    owners: Owners | None = None
    lag: int | None = None
    retry_after_ms: int = RETRY_MS


@dataclass(frozen=True, slots=True)
class Refused:
    """The query is wrong, for every process."""

    code: str
    text: str


Answer = Found | Unanswered | Refused


def proof(token: str | None, side: str, server_nonce: bytes, client_nonce: bytes) -> bytes:
    """Return what shows that ``side`` (client or server) knows the token, for these nonces only; b"" without one."""
    if token is None:
        return b""
    return hmac.digest(token.encode(), side.encode() + server_nonce + client_nonce, "sha256")


def get_message(number: int, get: Get) -> Message:
    """Return a query as a message; fields that are None are left out."""
    optional = {"partition": get.partition, "max_lag": get.max_lag}
    fields = {name: value for name, value in optional.items() if value is not None}
    return {"id": number, "op": "get", "store": get.store, "key": get.key, "timeout_ms": get.timeout_ms, **fields}


def read_get(message: Message) -> Get:
    """Check a query. Raises ``QueryRefused`` with ``bad_request``, which names the field and what is allowed."""
    known = {"id", "op", "store", "key", "partition", "max_lag", "timeout_ms"}
    if unknown := message.keys() - known:
        raise QueryRefused("bad_request", f"get: no field {min(unknown)[:60]!r}")
    store, key = message.get("store"), message.get("key")
    if not isinstance(store, str) or not 0 < len(store) <= TEXT_MAX:
        raise QueryRefused("bad_request", f"get: store must be a string of 1 to {TEXT_MAX} characters")
    if not isinstance(key, bytes):
        raise QueryRefused("bad_request", f"get: key is of type {type(key).__name__}; it must be bytes")
    partition = _whole(message, "partition", PARTITION_MAX)
    max_lag = _whole(message, "max_lag", OFFSET_MAX)
    timeout_ms = _whole(message, "timeout_ms", TIMEOUT_MS_MAX)
    return Get(store, key, partition, max_lag, 2_000 if timeout_ms is None else timeout_ms)


def _whole(message: Message, name: str, most: int) -> int | None:
    value = message.get(name)
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise QueryRefused("bad_request", f"get: {name} must be a whole number from 0 to {most}")
    return value


def answer_message(number: int | None, answer: Answer) -> Message:
    """Return an answer as a message."""
    match answer:
        case Found(value, role, lag, timestamp_ms):
            ok = {"value": value, "role": role.value, "lag": lag, "timestamp_ms": timestamp_ms}
            return {"id": number, "ok": ok}
        case Unanswered(reason, text, owners, lag, retry_after_ms):
            error: dict[str, object] = {
                "code": reason.value,
                "message": text,
                "retry_after_ms": retry_after_ms,
                "lag": lag,
            }
            if owners is not None:
                error |= {
                    "active": owners.active,
                    "standbys": list(owners.standbys),
                    "generation": owners.generation,
                }
            return {"id": number, "error": error}
        case Refused(code, text):
            return error_message(number, code, text)


def error_message(number: int | None, code: str, text: str) -> Message:
    """Return the message of an error; the id is nil where none could be read."""
    assert code in ERROR_CODES, code
    return {"id": number, "error": {"code": code, "message": text}}


def read_answer(message: Message, number: int) -> Answer:
    """Check a reply to request ``number``. Raises ``MalformedFrame`` for anything else."""
    if message.get("id") not in (number, None):
        raise MalformedFrame(f"a reply to request {message.get('id')!r}; expected one to {number}")
    try:
        return _found(message["ok"]) if "ok" in message else _failure(message["error"])
    except (KeyError, TypeError, ValueError) as cause:
        raise MalformedFrame(f"not a reply to a query: {type(cause).__name__}: {cause}"[:200]) from None


def _found(ok: Any) -> Found:
    value, stamp = ok["value"], ok["timestamp_ms"]
    if value is not None and type(value) is not bytes:
        raise TypeError("value")
    return Found(value, Role(ok["role"]), _number(ok["lag"]), None if stamp is None else int(stamp))


def _failure(error: Any) -> Unanswered | Refused:
    code, text = error["code"], str(error["message"])
    if code not in _REASONS:
        return Refused(str(code), text)
    lag = error.get("lag")
    owners = None
    if "generation" in error:
        active, standbys = error["active"], error["standbys"]
        if len(standbys) > ENDPOINTS_MAX:
            raise ValueError("standbys")
        owners = Owners(int(error["generation"]), None if active is None else str(active), tuple(map(str, standbys)))
    retry_after_ms = min(_number(error.get("retry_after_ms", RETRY_MS)), TIMEOUT_MS_MAX)
    return Unanswered(Reason(code), text, owners, None if lag is None else _number(lag), retry_after_ms)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value
