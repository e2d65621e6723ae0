"""Where everything stands below ``--out``: tables for readers, and the folders that no reader looks into.

What lives here: names, and the lock of the folder. What must not: commits and compaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kstreams_assign.errors import ConfigError, StateDirectoryLocked
from kstreams_assign.history.store import IN_PLACE, Store
from kstreams_assign.state.lock import holder, take_lock

BUCKETS = 64
"""Over how many files the groups' states are spread; a batch writes those of its groups again."""

STATES = "_state"
"""The table of the groups' states."""


@dataclass(frozen=True)
class Layout:
    """The folder of a history. Where ``store`` has the files elsewhere, the folder is the driver's own."""

    root: Path
    store: Store = IN_PLACE

    @property
    def name(self) -> str:
        """What ``--out`` calls it."""
        return self.store.address or str(self.root.absolute())

    @property
    def is_copy(self) -> bool:
        """Whether the tables are elsewhere, so that Spark's tasks do not see the folder."""
        return self.store.address is not None

    @property
    def checkpoint(self) -> Path:
        """Spark's own: which records a batch has, and which batches are done."""
        return self.root / "_checkpoint"

    @property
    def log(self) -> Path:
        return self.root / "_log" / "spark.log"

    def table(self, name: str) -> Path:
        return self.root / name


_READ_AS_ANOTHER = re.compile(r"%[0-9A-Fa-f]{2}|\\")
"""The library of Delta Lake takes such a path for an address: it reads %2D as -, and a backslash as a slash."""


def folder_of(out: Path | str) -> Path:
    """Return the absolute path of the folder that ``--out`` names. Raises ``ConfigError`` if it cannot have tables."""
    folder = Path(out).absolute()
    if misread := _READ_AS_ANOTHER.search(str(folder)):
        raise ConfigError(
            f"--out {folder}: {misread[0]!r} is not allowed in the path of the tables, as the library of Delta Lake "
            "takes it for another path; name a folder without it"
        )
    return folder


def layout_of(place: Path | Layout) -> Layout:
    """Return the layout of a folder."""
    return place if isinstance(place, Layout) else Layout(place)


@contextmanager
def held(layout: Layout) -> Iterator[None]:
    """Keep the folder to this process for the block. Raises ``StateDirectoryLocked`` naming the process that has it.

    File systems of Hadoop have no locks: there the commits alone decide between two runs.
    """
    if layout.is_copy:
        yield
        return
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        lock = take_lock(layout.root)
    except OSError as error:
        raise ConfigError(
            f"--out {layout.root}: cannot be written to ({error.strerror}); name another folder"
        ) from error
    except StateDirectoryLocked as error:
        raise StateDirectoryLocked(
            f"--out {layout.root}: another run works on it, {holder(layout.root) or 'which has just ended'}; wait, or "
            "name another folder"
        ) from error
    with lock:
        yield


def refuse_second_run(layout: Layout) -> None:
    """Raise what ``held`` would: before Spark starts, which takes seconds and the cluster's cores."""
    with held(layout):
        pass
