"""Check what the user's code passes to stores, outputs and timers: a wrong argument ends that call and nothing else.

A wrong type is a ``TypeError``, a value out of range a ``ValueError``: both may come from a record, which ``on_error``
then sets aside.

What must not live here: what happens with the values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from kstreams_assign.model import TaskId
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.timers import TIME_MAX
from kstreams_assign.worker.at_work import AtWork

BYTES: frozenset[type] = frozenset({bytes})
BYTES_OR_NONE: frozenset[type] = frozenset({bytes, type(None)})
UTF8 = "text that UTF-8 can encode"
_SHOWN_CHARACTERS = 60


class Numbers(NamedTuple):
    """The whole numbers from 0 to ``most`` that an argument may be, and ``words`` for them."""

    most: int
    words: str


MILLISECONDS = Numbers(TIME_MAX, "from 0 to 2^63 - 1, milliseconds since 1970")
PARTITIONS = Numbers(2**31 - 1, "the number of one of the topic's partitions")


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
        """Raise ``ValueError`` for a value of the right type that is out of range."""
        raise ValueError(
            f"task {self.task}, {self.name}, {position(self.at_work.record)}: {what} = {value!r}: must be {allowed}"
        )

    def number(self, what: str, value: int, allowed: Numbers) -> int:
        """Return a whole number. Raises ``TypeError``, ``ValueError``."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(what, value, frozenset({int}))
        if not 0 <= value <= allowed.most:
            self.refuse_value(what, value, allowed.words)
        return value

    def text(self, what: str, value: object) -> str:
        """Return a string that UTF-8 can encode, as clients and stores do. Raises ``TypeError``, ``ValueError``."""
        if not isinstance(value, str):
            self.refuse(what, value, frozenset({str}))
        if not is_utf8(value):
            self.refuse_value(what, value, UTF8)
        return value

    def times(self, timestamps_ms: Sequence[int] | None, count: int, current_ms: int) -> Sequence[int]:
        """Return a time for each of so many; the current record's where none are given.

        Raises ``TypeError``, and ``ValueError`` for a time out of range and for another number of times.
        """
        if timestamps_ms is None:
            return [current_ms] * count
        times = [self.number("timestamps_ms", each, MILLISECONDS) for each in timestamps_ms]
        if len(times) != count:
            self.refuse_value("the number of timestamps_ms", len(times), f"{count}, one for each")
        return times

    def headers(self, headers: object) -> tuple[tuple[str, bytes | None], ...]:
        """Return header names and values. Raises ``TypeError``, ``ValueError``."""
        if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
            self.refuse("headers", headers, frozenset({list, tuple}))
        return tuple(map(self._header, headers))

    def _header(self, pair: object) -> tuple[str, bytes | None]:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            self.refuse("a header", pair, frozenset({tuple}))
        name, value = pair
        self.check("a header's value", (value,), BYTES_OR_NONE)
        return self.text("a header's name", name), value


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can encode a string; it cannot encode half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def position(record: Record) -> str:
    """Return topic, partition and offset of a record as text."""
    return f"{record.topic}-{record.partition} at offset {record.offset}" if record.topic else "before its first record"
