"""Check what the user's code passes to stores and outputs: a wrong type ends that call and nothing else.

What must not live here: what happens with the values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.at_work import AtWork

BYTES: frozenset[type] = frozenset({bytes})
BYTES_OR_NONE: frozenset[type] = frozenset({bytes, type(None)})
MILLISECONDS = ">= 0, milliseconds since 1970"
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Where values are passed: a store or an output (``name``) of a task, with the current record in ``at_work``."""

    task: TaskId
    name: str
    at_work: AtWork

    def check(self, what: str, values: Iterable[object], allowed: Collection[type] = BYTES) -> None:
        """Raise ``TypeError`` for the first of another type; one call in C where all fit."""
        for value in values:
            if type(value) not in allowed and not isinstance(value, tuple(allowed)):
                self.refuse(what, value, allowed)

    def refuse(self, what: str, value: object, allowed: Collection[type] = BYTES) -> NoReturn:
        """Raise ``TypeError`` with task, store or output, current record, value, and what is allowed."""
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in sorted(allowed, key=str))
        given = "None" if value is None else f"{type(value).__name__} {repr(value)[:_SHOWN_CHARACTERS]}"
        raise TypeError(
            f"task {self.task}, {self.name}, {position(self.at_work.record)}: {what} is {given}: must be {names}"
        )

    def refuse_value(self, what: str, value: object, allowed: str) -> NoReturn:
        """Raise ``ConfigError`` for a value of the right type that is out of range."""
        raise ConfigError(
            f"task {self.task}, {self.name}, {position(self.at_work.record)}: {what} = {value!r}: must be {allowed}"
        )

    def number(self, what: str, value: int, allowed: str) -> int:
        """Return a whole number >= 0. Raises ``TypeError``, ``ConfigError``."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(what, value, frozenset({int}))
        if value < 0:
            self.refuse_value(what, value, allowed)
        return value

    def times(self, timestamps_ms: Sequence[int] | None, count: int, current_ms: int) -> Sequence[int]:
        """Return a time for each of so many; the current record's where none are given.

        Raises ``TypeError``, and ``ConfigError`` for another number of times.
        """
        if timestamps_ms is None:
            return [current_ms] * count
        times = [self.number("timestamps_ms", each, MILLISECONDS) for each in timestamps_ms]
        if len(times) != count:
            self.refuse_value("the number of timestamps_ms", len(times), f"{count}, one for each")
        return times

    def headers(self, headers: object) -> tuple[tuple[str, bytes | None], ...]:
        """Return header names and values. Raises ``TypeError``."""
        if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
            self.refuse("headers", headers, frozenset({list, tuple}))
        return tuple(map(self._header, headers))

    def _header(self, pair: object) -> tuple[str, bytes | None]:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            self.refuse("a header", pair, frozenset({tuple}))
        name, value = pair
        self.check("a header's name", (name,), frozenset({str}))
        self.check("a header's value", (value,), BYTES_OR_NONE)
        return name, value


def position(record: Record) -> str:
    """Return topic, partition and offset of a record as text."""
    return f"{record.topic}-{record.partition} at offset {record.offset}" if record.topic else "before its first record"
