"""Reading a range of a store with RocksDB's cursor.

rocksdict's own iterators take a damaged block for the end of the store. ``StoreRange`` asks the cursor for its status
at the end, and raises the error that ``store_faults`` makes of it. What must not be here: which store, which database.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from kstreams_assign.adapters.store_faults import Translation

CHUNK_RECORDS = 1_000


class Cursor(Protocol):
    """What is used of rocksdict's ``RdictIter``."""

    def seek(self, key: bytes, /) -> None: ...

    def seek_for_prev(self, key: bytes, /) -> None: ...

    def seek_to_last(self) -> None: ...

    def valid(self) -> bool: ...

    def key(self) -> Any: ...

    def value(self) -> Any: ...

    def next(self) -> None: ...

    def prev(self) -> None: ...

    def status(self) -> None: ...


class StoreRange(Iterator[tuple[bytes, bytes]]):
    """One pass over a store, in chunks, forward or in reverse. Raises ``StoreDamaged`` for a block that is damaged."""

    def __init__(
        self, cursor: Cursor, start: bytes | None, end: bytes | None, reverse: bool, translation: Translation
    ) -> None:
        self._cursor: Cursor | None = cursor
        self._translation = translation
        self._entries = self._backward(cursor, start, end) if reverse else self._forward(cursor, start, end)
        self._chunk: Iterator[tuple[bytes, bytes]] = iter(())

    def __next__(self) -> tuple[bytes, bytes]:
        entry = next(self._chunk, None)
        return self._after_chunk() if entry is None else entry

    def _after_chunk(self) -> tuple[bytes, bytes]:
        with self._translation:
            chunk = list(islice(self._entries, CHUNK_RECORDS))
            if not chunk:
                self._check_status()
        if not chunk:
            self.close()
        self._chunk = iter(chunk)
        return next(self._chunk)

    def _check_status(self) -> None:
        """Raise what stopped the cursor. Another thread may let go of it meanwhile."""
        cursor = self._cursor
        try:
            if cursor is not None:
                cursor.status()
        finally:
            del cursor  # or the error's traceback keeps the database open and locked

    def close(self) -> None:
        """Let go of the database; what is left is not read."""
        self._cursor, self._entries, self._chunk = None, iter(()), iter(())

    @staticmethod
    def _forward(cursor: Cursor, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        cursor.seek(start or b"")
        while cursor.valid():
            key = cursor.key()
            if end is not None and key >= end:
                return
            yield key, cursor.value()
            cursor.next()

    @staticmethod
    def _backward(cursor: Cursor, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if end is None:
            cursor.seek_to_last()
        else:
            cursor.seek_for_prev(end)
        while cursor.valid():
            key = cursor.key()
            if start is not None and key < start:
                return
            if key != end:
                yield key, cursor.value()
            cursor.prev()


def last_key(cursor: Cursor) -> bytes | None:
    """Return the last key of a store, or None if it is empty."""
    cursor.seek_to_last()
    if cursor.valid():
        key: bytes = cursor.key()
        return key
    cursor.status()
    return None
