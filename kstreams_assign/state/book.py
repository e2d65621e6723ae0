"""What the journal's lines come to, as values: when each task's state was last at work, and what is on its way out.

Pure: lines in, a book out. What must not be here: files, clocks (``state.journal`` has them).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Literal, get_args
from uuid import UUID

Deed = Literal["open", "own", "release", "found", "retire", "delete", "keep"]
"""What a line tells: a process opened the directory; a task's folder was taken, let go, or is there and nobody knows since when;
it goes to the trash under the name ``to``; it is deleted from there; it did not go after all."""

_OF_A_PLACE = frozenset({"retire", "delete", "keep"})

PAST_LINES = 200
"""So many lines of what is over are kept for people."""
_SETTLED = "so it was found at a start; the time is that of the retirement"
_FAR_OFF_MS = 250_000_000_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``at_ms`` is wall time; ``task`` the folder's name; ``to`` its name in the trash; ``why`` is for people."""

    at_ms: int
    did: Deed
    task: str = ""
    to: str = ""
    why: str = ""
    process_id: str = ""

    def to_text(self) -> str:
        """One JSON object, with the time as people write it (UTC)."""
        told = {key: value for key, value in asdict(self).items() if value and key != "at_ms"}
        return json.dumps({"at": iso(self.at_ms), **told}) + "\n"


def read_line(text: str) -> Line | None:
    """None for what is torn, or none of ours, or a later version's: those only add."""
    try:
        told = json.loads(text)
        known = {key: str(told.get(key, "")) for key in ("task", "to", "why", "process_id")}
        line = Line(from_iso(told["at"]), told["did"], **known)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return line if line.did in get_args(Deed) else None


def iso(at_ms: int) -> str:
    """``2026-01-31T12:00:00.000Z``: 24 characters, always."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> int:
    """Milliseconds since 1970. Raises ``ValueError``, also for a time before it or far off."""
    at_ms = round(datetime.fromisoformat(text).timestamp() * 1000)
    if not 0 <= at_ms < _FAR_OFF_MS:
        raise ValueError(f"{text} is no time of a journal")
    return at_ms


@dataclass(slots=True)
class Book:
    """The lines that still matter. ``used``: folder -> its last own, release or found; ``trashed``: name there -> its retire."""

    opened: Line | None = None
    used: dict[str, Line] = field(default_factory=dict)
    trashed: dict[str, Line] = field(default_factory=dict)
    past: deque[Line] = field(default_factory=lambda: deque(maxlen=PAST_LINES))

    def add(self, line: Line) -> None:
        """The next line."""
        match line.did:
            case "open":
                self.opened = line
            case "own" | "release" | "found":
                self.used[line.task] = line
            case "retire":
                self.trashed[line.to] = line
            case "delete" | "keep":
                self._is_over(line.to, line)

    @property
    def process_id(self) -> UUID | None:
        """Of the last process that opened the directory."""
        try:
            return UUID(self.opened.process_id) if self.opened else None
        except ValueError:
            return None

    def last_used_ms(self, task: str, alive_ms: int | None) -> int | None:
        """When the folder was last at work; None if nobody knows. ``alive_ms``: when the last process was last seen."""
        line = self.used.get(task)
        if line is None:
            return None
        return max(line.at_ms, alive_ms or 0) if line.did == "own" else line.at_ms

    def as_found(self, folders: Mapping[str, int], trash: Collection[str], alive_ms: int | None) -> Book:
        """The book of a process that opens the directory: what the one before left unsaid is said.

        ``folders``: task folders that are there -> when a file in them was last written, for those that no line knows.
        A retirement whose folder is not in the trash has either not happened or is over; a folder that stands in its
        old place may have begun anew, so it is never touched because of an old line.
        """
        book = Book(self.opened, past=deque(self.past, PAST_LINES))
        for name, written_ms in folders.items():
            line = self.used.get(name)
            if line is None:
                line = Line(written_ms, "found", name)
            elif line.did == "own":
                at_ms = max(line.at_ms, alive_ms or 0)
                line = replace(line, at_ms=at_ms, did="release", why="its process ended without a word; last seen then")
            book.used[name] = line
        for place, line in self.trashed.items():
            if place in trash:
                book.trashed[place] = line
            else:
                book.past.extend((line, replace(line, did="keep" if line.task in folders else "delete", why=_SETTLED)))
        return book

    def lines(self, is_there: Callable[[str], bool]) -> list[Line]:
        """What a journal that is written anew holds: what is over, and what is, in the order of time. Folders that went are forgotten."""
        used = [line for line in self.used.values() if line.did == "own" or is_there(line.task)]
        return _by_time([*self.past, *([self.opened] if self.opened else []), *used, *self.trashed.values()])

    def _is_over(self, place: str, line: Line) -> None:
        retired = self.trashed.pop(place, None)
        self.past.extend(one for one in (retired, line) if one is not None)


def _by_time(lines: Iterable[Line]) -> list[Line]:
    """But lines about one place in the trash stay in their order, which a clock that was set back would turn round."""
    newest_ms: dict[str, int] = {}
    timed = []
    for line in lines:
        at_ms = line.at_ms
        if line.did in _OF_A_PLACE:
            at_ms = newest_ms[line.to] = max(at_ms, newest_ms.get(line.to, 0))
        timed.append((at_ms, line))
    return [line for _, line in sorted(timed, key=itemgetter(0))]


def book_of(lines: Iterable[Line]) -> Book:
    """The book that these lines come to."""
    book = Book()
    for line in lines:
        book.add(line)
    return book
