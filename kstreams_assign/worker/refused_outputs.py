"""Outputs that the brokers have refused for good, so that they are not sent again. Pure: the clock is an argument.

A record that is too large or not valid is known again by its topic, key, size and, if it has an own one, partition. A
topic that takes nothing from this client refuses every record; it is tried again once a minute, as a right may be given
meanwhile. What must not live here: what becomes of a refused output (``bad_records``).
"""

from __future__ import annotations

from typing import NamedTuple

from kstreams_assign.errors import RecordRefused
from kstreams_assign.tasks.buffer import Row

REFUSALS_MAX = 1_000
"""Refused outputs that are remembered; a forgotten one costs another failed commit."""

FORBIDDEN_MS = 60_000
"""For how long a topic is taken to refuse every record."""


class _Signature(NamedTuple):
    """What is known of an output that was refused. ``size_bytes`` is that of key and value.

    ``partition``: the one that it was sent to, if that is why it is refused.
    """

    topic: str
    key: bytes | None
    size_bytes: int
    partition: int | None


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

    def remember(self, refused: RecordRefused, now_ms: int) -> None:
        """Remember an output, or its whole topic where no record may be written there."""
        if refused.forbidden:
            self._forbidden[refused.topic] = _Forbidden(refused, now_ms + FORBIDDEN_MS)
            return
        while len(self._refused) >= REFUSALS_MAX:
            del self._refused[next(iter(self._refused))]
        partition = refused.partition if refused.absent else None
        self._refused[_Signature(refused.topic, refused.key, refused.size_bytes, partition)] = refused

    def refusal(self, row: Row, now_ms: int) -> RecordRefused | None:
        """Return why the brokers would refuse an output, as far as that is known."""
        topic, key, value, _, partition, _ = row
        if (forbidden := self._forbidden.get(topic)) is not None:
            if now_ms < forbidden.until_ms:
                return forbidden.refused
            del self._forbidden[topic]
        anywhere = _Signature(topic, key, len(key or b"") + len(value or b""), None)
        refused = self._refused.get(anywhere)
        if refused is None and partition is not None:
            refused = self._refused.get(anywhere._replace(partition=partition))
        return refused
