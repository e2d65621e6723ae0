"""The journal's lines as values, and what they add up to: when each task was last used, and what is being removed.

Pure: lines in, ``JournalContents`` out. Files and clocks do not belong here (``state.journal`` has them).
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

Action = Literal["open", "own", "release", "found", "retire", "delete", "keep"]
"""``open``: a process opened the directory. ``own``, ``release``: a task's folder is in use, or closed. ``found``: a
folder exists that no line mentions. ``retire``: it moves to the trash as ``to``. ``delete``: its bytes are deleted.
``keep``: it was not moved."""

_OF_A_PLACE = frozenset({"retire", "delete", "keep"})

PAST_LINES = 200
"""Lines about finished removals that are kept for people."""
_SETTLED = "seen at a later start; the time is that of the retirement"
_FAR_OFF_MS = 250_000_000_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    ``at_ms``: wall time; ``task``: the folder's name; ``to``: its name in the trash; ``why``: for people.
    """

    at_ms: int
    did: Action
    task: str = ""
    to: str = ""
    why: str = ""
    process_id: str = ""

    def to_text(self) -> str:
        """Return one JSON object, with the time as text (UTC)."""
        fields = {key: value for key, value in asdict(self).items() if value and key != "at_ms"}
        return json.dumps({"at": iso(self.at_ms), **fields}) + "\n"


def read_line(text: str) -> Line | None:
    """Return the line; None if it is torn, foreign, or of a later version, which only adds actions."""
    try:
        fields = json.loads(text)
        known = {key: str(fields.get(key, "")) for key in ("task", "to", "why", "process_id")}
        line = Line(from_iso(fields["at"]), fields["did"], **known)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return line if line.did in get_args(Action) else None


def iso(at_ms: int) -> str:
    """Format a time as ``2026-01-31T12:00:00.000Z``: always 24 characters."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> int:
    """Return milliseconds since 1970. Raises ``ValueError``, also for a time before 1970 or in the far future."""
    at_ms = round(datetime.fromisoformat(text).timestamp() * 1000)
    if not 0 <= at_ms < _FAR_OFF_MS:
        raise ValueError(f"{text} is not a time of a journal")
    return at_ms


@dataclass(slots=True)
class JournalContents:
    """The lines that still matter.

    ``used``: folder -> its last ``own``, ``release`` or ``found``. ``trashed``: name in the trash -> its ``retire``.
    """

    opened: Line | None = None
    used: dict[str, Line] = field(default_factory=dict)
    trashed: dict[str, Line] = field(default_factory=dict)
    past: deque[Line] = field(default_factory=lambda: deque(maxlen=PAST_LINES))

    def add(self, line: Line) -> None:
        """Apply the next line."""
        match line.did:
            case "open":
                self.opened = line
            case "own" | "release" | "found":
                self.used[line.task] = line
            case "retire":
                self.trashed[line.to] = line
            case "delete" | "keep":
                self._finish(line.to, line)

    @property
    def process_id(self) -> UUID | None:
        """The id of the last process that opened the directory."""
        try:
            return UUID(self.opened.process_id) if self.opened else None
        except ValueError:
            return None

    def last_used_ms(self, task: str, alive_ms: int | None) -> int | None:
        """Return when the folder was last used; None if unknown. ``alive_ms``: the last process' last heartbeat."""
        line = self.used.get(task)
        if line is None:
            return None
        return max(line.at_ms, alive_ms or 0) if line.did == "own" else line.at_ms

    def reopened(self, folders: Mapping[str, int], trash: Collection[str], alive_ms: int | None) -> JournalContents:
        """Settle what the last process did not finish, and return the contents for the next process.

        ``folders``: existing task folders -> the time of their last write, for folders that no line mentions. A
        retirement whose folder is not in the trash either never happened or is complete. A folder in its old place may
        be a new one, so an old line never removes it.
        """
        contents = JournalContents(self.opened, past=deque(self.past, PAST_LINES))
        for name, written_ms in folders.items():
            line = self.used.get(name)
            if line is None:
                line = Line(written_ms, "found", name)
            elif line.did == "own":
                at_ms = max(line.at_ms, alive_ms or 0)
                line = replace(line, at_ms=at_ms, did="release", why="its process crashed; this is its last heartbeat")
            contents.used[name] = line
        for place, line in self.trashed.items():
            if place in trash:
                contents.trashed[place] = line
            else:
                contents.past.extend(
                    (line, replace(line, did="keep" if line.task in folders else "delete", why=_SETTLED))
                )
        return contents

    def lines(self, is_there: Callable[[str], bool]) -> list[Line]:
        """Return the lines of a rewritten journal, past and present, by time. Deleted folders are left out."""
        used = [line for line in self.used.values() if line.did == "own" or is_there(line.task)]
        return _by_time([*self.past, *([self.opened] if self.opened else []), *used, *self.trashed.values()])

    def _finish(self, place: str, line: Line) -> None:
        if retired := self.trashed.pop(place, None):
            self.past.append(retired)
        self.past.append(line)


def _by_time(lines: Iterable[Line]) -> list[Line]:
    """Sort by time, but keep the order of lines about the same place in the trash, also if the clock was set back."""
    newest_ms: dict[str, int] = {}
    timed = []
    for line in lines:
        at_ms = line.at_ms
        if line.did in _OF_A_PLACE:
            at_ms = newest_ms[line.to] = max(at_ms, newest_ms.get(line.to, 0))
        timed.append((at_ms, line))
    return [line for _, line in sorted(timed, key=itemgetter(0))]


def replay_lines(lines: Iterable[Line]) -> JournalContents:
    """Return the contents after these lines."""
    contents = JournalContents()
    for line in lines:
        contents.add(line)
    return contents
