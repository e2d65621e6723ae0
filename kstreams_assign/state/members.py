"""The group members of earlier processes in this directory: a killed process leaves its member in the group.

Brokers keep a dead member until its session ends, and a rebalance waits for it. The next process here has the
directory's lock, so it knows that its predecessors are dead and removes them from the group. In a copy of the directory
they may be alive, and the copy has the same process id. So the list also names its place: the host, the device and the
inode of the directory. A list of another place is ignored, also after the directory has moved; then a rebalance waits
until the dead member's session ends. Calls to brokers do not belong here.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.errors import StateError
from kstreams_assign.state.lock import read_json, take_lock

FILE = "members"
_VERSION = 1


class Seat(NamedTuple):
    """A member as the brokers know it; ``instance_id``: of a static member."""

    member_id: str
    instance_id: str | None


class Members:
    """The list, in a file of the directory. It has to outlive the process but not the machine, so it is not flushed.

    ``before``: the members of processes that have ended, oldest first.
    """

    def __init__(self, folder: Path, process_id: UUID) -> None:
        self._path = folder / FILE
        self._process_id = process_id
        self.before: tuple[Seat, ...] = _read(self._path, process_id)

    def joining(self, seat: Seat) -> None:
        """Record that this process is about to join as ``seat``. Raises ``OSError``."""
        self._keep([*self.before, seat])

    def joined(self, seat: Seat) -> None:
        """Record that the join is complete and that no predecessor is left in the group. Raises ``OSError``."""
        self.before = ()
        self._keep([seat])

    def _keep(self, seats: list[Seat]) -> None:
        content = {
            "version": _VERSION,
            "process_id": str(self._process_id),
            "place": _place(self._path.parent),
            "members": [seat._asdict() for seat in seats],
        }
        draft = self._path.with_name(f"{FILE}.draft")
        draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
        draft.replace(self._path)


@contextmanager
def kept_members(folder: Path, process_id: UUID) -> Iterator[Members]:
    """Lock a directory that has nothing but the list, for the block, and return the list.

    Raises ``StateDirectoryLocked`` if another member has it, ``StateError`` if it cannot be created or locked.
    """
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        lock = take_lock(folder, "member_dir")
    except OSError as error:
        raise StateError(
            f"member_dir = {folder.absolute()}: cannot be used: {error}; check its owner and the disk"
        ) from error
    with lock:
        yield Members(folder, process_id)


def _read(path: Path, process_id: UUID) -> tuple[Seat, ...]:
    """Return the members; none if the file is missing, torn, or of another process id or place."""
    kept = read_json(path)
    listed = kept.get("members")
    if kept.get("process_id") != str(process_id) or not isinstance(listed, list):
        return ()
    if kept.get("place") != _place(path.parent):
        return ()
    return tuple(filter(None, map(_seat, listed)))


def _place(folder: Path) -> dict[str, object]:
    """Return what no copy of the folder shares: a copy of files has other inodes, a clone another device or host."""
    facts = folder.stat()
    return {"host": platform.node(), "device": facts.st_dev, "inode": facts.st_ino}


def _seat(item: object) -> Seat | None:
    match item:
        case {"member_id": str(member_id), "instance_id": None | str() as instance_id}:
            return Seat(member_id, instance_id)
    return None
