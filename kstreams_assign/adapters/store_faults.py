"""Errors of RocksDB and the file system as this package's errors: one table from their text to ``errors``.

What must not be here: what is done about an error. The idea: state is a copy of its changelog, so what is broken,
foreign or newer than this program is ``StoreDamaged`` and can be thrown away; what a person has to mend (space, rights,
a lock) is ``StateError``, and the store behind it is left alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType

from kstreams_assign.errors import StateError, StoreDamaged

BORROWED = re.compile("[Aa]lready (mutably )?borrowed")
"""What rocksdict says to a call while another thread is in one that excludes it: reads and the close."""

VERDICTS: tuple[tuple[re.Pattern[str], type[StateError], str], ...] = (
    (
        re.compile("lock hold by current process|While lock file"),
        StateError,
        "is open already; end the process that has it",
    ),
    (re.compile("Permission denied|Operation not permitted"), StateError, "is not this user's; give it the rights"),
    (re.compile("Read-only file system"), StateError, "lies on a disk that cannot be written; mount it for writing"),
    (
        re.compile("No space left on device|Disk quota exceeded|File too large|Space limit"),
        StateError,
        "has no space left on its disk; free some, or set state_dir elsewhere",
    ),
    (re.compile("Too many open files"), StateError, "may open no more files; raise the limit (ulimit -n)"),
    (re.compile("Input/output error"), StateError, "lies on a disk that fails; look at the system's log"),
    (re.compile("already closed"), StateError, "is closed"),
    (BORROWED, StateError, "is closed or read by another thread just now"),
    (re.compile("^Corruption"), StoreDamaged, "is damaged"),
    (re.compile("No such file or directory"), StoreDamaged, "lacks a file"),
    (
        re.compile("Is a directory|Not a directory|File exists"),
        StoreDamaged,
        "has a file where a folder should be, or a folder for a file",
    ),
    (
        re.compile(
            "does not match existing comparator|not match .*merge operator|^Not implemented|[Uu]nsupported"
            "|newer version"
        ),
        StoreDamaged,
        "was written by another or a newer program",
    ),
    (re.compile(""), StateError, "was refused by RocksDB"),
)
"""Text of an error -> our error and what to do, first match wins.

What only a person can mend comes first: RocksDB wraps it in others.
"""


class Translation:
    """``with translation:`` raises what the store's library raises as ours, and lets every precise error through.

    ``bare`` are the library's own classes; an ``OSError`` is translated, too, since the library raises some by itself.
    """

    __slots__ = ("_bare", "_path")

    def __init__(self, path: Path, bare: frozenset[type[BaseException]]) -> None:
        self._path = path
        self._bare = bare

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and (kind in self._bare or issubclass(kind, OSError)):
            raise self.verdict(str(error)) from error

    def verdict(self, text: str) -> StateError:
        verdicts = ((error, says) for pattern, error, says in VERDICTS if pattern.search(text))
        error, says = next(verdicts)
        return error(f"the store at {self._path} {says}: {' '.join(text.split())}")

    def damaged(self, says: str) -> StoreDamaged:
        return StoreDamaged(f"the store at {self._path} {says}")
