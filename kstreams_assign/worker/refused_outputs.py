"""Outputs that the brokers have refused for good: which they were, and that they are not sent again.

Pure: clocks and limits are arguments. A topic that takes nothing from this client refuses every record; it is tried
again once a minute, as a right may be given meanwhile. What must not live here: what becomes of a refused output
(``bad_records``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kstreams_assign.errors import RecordRefused
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.dead_letters import RECORD_OVERHEAD_BYTES, content_bytes

REFUSALS_MAX = 1_000
"""Refused outputs that are remembered; a forgotten one costs another failed commit."""

_BY_KEY = -1
"""The partition of a row for which the key chooses it."""
FORBIDDEN_MS = 60_000
"""For how long a topic is taken to refuse every record."""


class Output(NamedTuple):
    """An output and the task that has emitted it."""

    task: TaskId
    row: Row


def to_blame(refused: RecordRefused, outputs: Sequence[Output], bytes_max: int | None, now_ms: int) -> Sequence[Output]:
    """Return the outputs that are refused and that the others can do without.

    ``outputs`` have the ``contents`` of the error. ``bytes_max``: the limit of the topic, None if it is unknown.
    ``now_ms``: since 1970.

    A topic that does not exist may be created. A broker refuses all records of a batch because of their sizes together,
    so an output is to blame only if it would not fit alone.
    """
    if refused.too_large:
        content_max = math.inf if bytes_max is None else bytes_max - RECORD_OVERHEAD_BYTES
        return [output for output in outputs if _size(output.row) > content_max]
    if refused.forbidden:
        return outputs
    if not refused.invalid:
        return []
    if refused.absent:
        return [output for output in outputs if output.row[4] == refused.partition]
    return _out_of_time(outputs, now_ms) if refused.untimely else outputs


def _out_of_time(outputs: Sequence[Output], now_ms: int) -> Sequence[Output]:
    """Return those whose timestamp is refused; which one it is, the delivery report leaves out.

    Of several times it is the latest if all are later than now, and the earliest if none is. Otherwise it is unknown:
    the topic has a limit on both sides.
    """
    times = {_time_ms(output.row) for output in outputs}
    if len(times) > 1 and min(times) <= now_ms < max(times):
        return []
    farthest = max(times, key=lambda time_ms: abs(time_ms - now_ms), default=0)
    return [output for output in outputs if _time_ms(output.row) == farthest]


class _Signature(NamedTuple):
    """What a refused output is known by. ``size_bytes`` is that of key, value and headers.

    ``partition``: the one that it was sent to, if that is why it is refused. ``value_hash`` and ``time_ms``: as far as
    they are why. A record without a key that is not valid is in a compacted topic, whatever its value.
    """

    topic: str
    key: bytes | None
    size_bytes: int
    partition: int | None = None
    value_hash: int | None = None
    time_ms: int | None = None


class _Forbidden(NamedTuple):
    """Why a topic takes nothing, and until when that is believed."""

    refused: RecordRefused
    until_ms: int


class RefusedOutputs:
    """The memory of one process. ``refusal`` is asked for each output while there is something in it."""

    def __init__(self) -> None:
        self._refused: dict[_Signature, RecordRefused] = {}
        self._forbidden: dict[str, _Forbidden] = {}

    def __bool__(self) -> bool:
        return bool(self._refused or self._forbidden)

    def remember(self, refused: RecordRefused, outputs: Sequence[Output], now_ms: int) -> None:
        """Remember the outputs to blame, or their whole topic where no record may be written there."""
        if refused.forbidden:
            self._forbidden[refused.topic] = _Forbidden(refused, now_ms + FORBIDDEN_MS)
            return
        for _, row in outputs:
            while len(self._refused) >= REFUSALS_MAX:
                del self._refused[next(iter(self._refused))]
            self._refused[_signature(row, refused)] = refused

    def refusal(self, row: Row, now_ms: int) -> RecordRefused | None:
        """Return why the brokers would refuse an output, as far as that is known."""
        topic, key, value, *_ = row
        if (forbidden := self._forbidden.get(topic)) is not None:
            if now_ms < forbidden.until_ms:
                return forbidden.refused
            del self._forbidden[topic]
        size, value_hash = _size(row), hash(value)
        for signature in (
            _Signature(topic, key, size),
            _Signature(topic, key, size, _partition(row)),
            _Signature(topic, key, size, None, value_hash),
            _Signature(topic, key, size, None, value_hash, _time_ms(row)),
        ):
            if (refused := self._refused.get(signature)) is not None:
                return refused
        return None


def _signature(row: Row, refused: RecordRefused) -> _Signature:
    topic, key, value, *_ = row
    anywhere = _Signature(topic, key, _size(row))
    if refused.absent:
        return anywhere._replace(partition=_partition(row))
    if refused.too_large or (key is None and not refused.untimely):
        return anywhere
    return anywhere._replace(value_hash=hash(value), time_ms=_time_ms(row) if refused.untimely else None)


def _partition(row: Row) -> int:
    return _BY_KEY if row[4] is None else row[4]


def _time_ms(row: Row) -> int:
    return row[5] or 0


def _size(row: Row) -> int:
    return content_bytes(row[1], row[2], row[3])
