"""Where the files of a history are: in its folder, or elsewhere while the folder is a copy of the logs.

What lives here: what the rest of the history asks of either, and the folder. What must not: the other (``remote``), and
what is in the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from kstreams_assign.errors import KStreamsAssignError
from kstreams_assign.history.mirror import Listed, expired

AsOf = int | datetime | None
"""A version of a table, a time, or None for the newest version."""

LOG = "_delta_log"
"""The folder of a table's log, in the folder of the table."""


class Store(Protocol):
    """Where the files of tables are. ``folder`` is that of a table, ``paths`` are relative to it.

    Raises errors of ``errors`` where a file system does not do what it is asked for.
    """

    @property
    def address(self) -> str | None:
        """Where the tables are, if the folders are only copies of their logs."""

    def has(self, folder: Path) -> bool:
        """Return whether there is such a folder."""

    def fetch_log(self, folder: Path, as_of: AsOf = None) -> None:
        """Bring into the folder what it lacks of the log, up to that version or time."""

    def send_log(self, folder: Path) -> bool:
        """Make the commits in the folder's log those of the table.

        If another run has committed such a version first, take theirs into the folder instead and return False.
        """

    def expire_log(self, folder: Path, cutoff_ms: int) -> None:
        """Delete the files of the log that no version needs that was the newest since then."""

    def fetch(self, folder: Path, paths: Iterable[str]) -> None:
        """Bring files of rows into the folder."""

    def send(self, folder: Path, paths: Iterable[str]) -> None:
        """Move files of rows out of the folder."""

    def delete(self, folder: Path, paths: Iterable[str]) -> None:
        """Delete files of rows."""

    def forget(self, folder: Path, paths: Iterable[str]) -> None:
        """Delete what ``fetch`` has brought."""

    @property
    def failed(self) -> KStreamsAssignError | None:
        """Why a file of rows was not read last, for callers that get the error of another library for it."""

    def listed_once(self, folders: Iterable[Path]) -> AbstractContextManager[None]:
        """For the block, list the files of all these tables once: a list of each takes seconds."""

    def standing_in(self, folder: Path) -> AbstractContextManager[None]:
        """For the block, the folder lists every file of rows, also those of no version, with its time."""

    def place(self, folder: Path, path: str = "") -> str:
        """Return the name under which Spark finds a file or a folder."""

    def reader(self, folder: Path) -> Any:
        """Return a file system of Arrow that reads the files of rows."""


class InPlace:
    """Tables in a folder that the driver and all executors see: nothing is copied."""

    address = None
    failed = None

    def has(self, folder: Path) -> bool:
        return folder.is_dir()

    def fetch_log(self, folder: Path, as_of: AsOf = None) -> None: ...

    def send_log(self, folder: Path) -> bool:  # noqa: ARG002 - as in the protocol
        return True

    def expire_log(self, folder: Path, cutoff_ms: int) -> None:
        log = folder / LOG
        for name in expired(listed(log), cutoff_ms):
            (log / name).unlink(missing_ok=True)

    def fetch(self, folder: Path, paths: Iterable[str]) -> None: ...

    def send(self, folder: Path, paths: Iterable[str]) -> None: ...

    def forget(self, folder: Path, paths: Iterable[str]) -> None: ...

    def delete(self, folder: Path, paths: Iterable[str]) -> None:
        for path in paths:
            (folder / path).unlink(missing_ok=True)

    def listed_once(self, folders: Iterable[Path]) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def standing_in(self, folder: Path) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def place(self, folder: Path, path: str = "") -> str:
        return str(folder / path)

    def reader(self, folder: Path) -> Any:
        import pyarrow.fs as pf  # type: ignore[import-untyped]

        return pf.SubTreeFileSystem(str(folder), pf.LocalFileSystem())  # the library's own aborts at exit


IN_PLACE = InPlace()


def listed(folder: Path) -> list[Listed]:
    """List the files of a folder of this machine."""
    files = ((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return [Listed(name, about.st_size, about.st_mtime_ns // 1_000_000) for name, about in files]
