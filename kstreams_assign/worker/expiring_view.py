"""A store whose entries expire as the user's code sees it: without those that have expired.

What must not live here: which entries have expired (``tasks.expiry``), and when they are deleted (``expiring``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import WriteBuffer
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore


class _Unexpired(KeyValueStore):
    """Read values as they are stored, without those that have expired."""

    __slots__ = ("_horizon",)

    def __init__(
        self,
        name: str,
        stores: TaskStores,
        buffer: WriteBuffer,
        at_work: AtWork,
        task: TaskId,
        horizon: Callable[[], bytes],
    ) -> None:
        super().__init__(name, stores, buffer, at_work, task)
        self._horizon = horizon

    def get(self, key: bytes) -> bytes | None:
        stored = super().get(key)
        return None if stored is None or stored < self._horizon() else stored

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        limit = self._horizon()
        return [None if stored is None or stored < limit else stored for stored in super().get_many(keys)]

    def _range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        limit = self._horizon()
        return (entry for entry in super()._range(start, end, reverse) if entry[1] >= limit)


class ExpiringKeyValueStore(TimestampedKeyValueStore, _Unexpired):
    """Read and write a store with a ttl. The methods of ``KeyValueStore`` work here with the values alone."""

    __slots__ = ()
