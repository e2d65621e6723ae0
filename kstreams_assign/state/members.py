"""Which members of the group this directory's processes were: a process that is killed leaves one behind there.

The brokers keep a dead member until its session ends, and a rebalance waits for it. Whoever works here next holds the directory's
lock, so it knows that they are dead and may take them out (``worker.past``). A copy of the directory may not: the list names
the process id that it is of. What must not be here: asking the brokers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.state.lock import read_json

FILE = "members"
_VERSION = 1


class Seat(NamedTuple):
    """A member as the brokers know it; ``instance_id`` is a static member's."""

    member_id: str
    instance_id: str | None


class Members:
    """The list, in a file of the directory. It outlives the process, not the machine, so it is not flushed to the disk.

    ``before``: the members of processes that are no more, oldest first.
    """

    def __init__(self, folder: Path, process_id: UUID) -> None:
        self._path = folder / FILE
        self._process_id = process_id
        self.before: tuple[Seat, ...] = _read(self._path, process_id)

    def joining(self, seat: Seat) -> None:
        """This process is about to join as ``seat``; from now on it may leave it behind. Raises ``OSError``."""
        self._keep([*self.before, seat])

    def joined(self, seat: Seat) -> None:
        """A join is over, and every other member of this directory is out of the group. Raises ``OSError``."""
        self.before = ()
        self._keep([seat])

    def _keep(self, seats: list[Seat]) -> None:
        told = {"version": _VERSION, "process_id": str(self._process_id), "members": [seat._asdict() for seat in seats]}
        draft = self._path.with_name(f"{FILE}.draft")
        draft.write_text(json.dumps(told) + "\n", encoding="utf-8")
        draft.replace(self._path)


def _read(path: Path, process_id: UUID) -> tuple[Seat, ...]:
    """Nobody, where the file is not there, torn, or another process's."""
    kept = read_json(path)
    listed = kept.get("members")
    if kept.get("process_id") != str(process_id) or not isinstance(listed, list):
        return ()
    return tuple(filter(None, map(_seat, listed)))


def _seat(told: object) -> Seat | None:
    match told:
        case {"member_id": str(member_id), "instance_id": None | str() as instance_id}:
            return Seat(member_id, instance_id)
    return None
