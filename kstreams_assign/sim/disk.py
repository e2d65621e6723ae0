"""A process's disk: the tasks with state, and their offsets. It outlives the process, unless a fault destroys it.

The stores and the reader implement the ports of the real restore loop. A store holds no records, only its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from uuid import UUID

from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.ports import Bounds, ChangelogBatch
from kstreams_assign.sim.broker import Logs
from kstreams_assign.tasks.stores import Write

SLOWER = 20
"""How much longer a restore takes from a slow disk."""


class Disk:
    """Folders by task. ``locked`` and ``released_ms`` belong to the running process.

    ``damaged``: folders whose content is damaged, which shows when they are opened or written; while it ``fails``, all
    are when they are opened. While it is ``full``, nothing can be written.
    """

    def __init__(self, process_id: UUID) -> None:
        self.process_id = process_id
        self.folders: dict[TaskId, dict[TopicPartition, int]] = {}
        self.locked: set[TaskId] = set()
        self.released_ms: dict[TaskId, int] = {}
        self.damaged: set[TaskId] = set()
        self.fails = self.full = self.slow = False

    def damage(self) -> None:
        """Damage all folders, and until ``mend`` new ones, too."""
        self.damaged.update(self.folders)
        self.fails = True

    def fill(self) -> None:
        """Refuse all writes until ``mend``."""
        self.full = True

    def slow_down(self) -> None:
        """Restore and write slowly until ``mend``."""
        self.slow = True

    def mend(self) -> None:
        """End all faults. What is damaged stays so until it is discarded."""
        self.fails = self.full = self.slow = False

    def discard(self, task: TaskId) -> None:
        self.folders.pop(task, None)
        self.damaged.discard(task)

    def restarted(self, now_ms: int) -> None:
        self.locked = set()
        self.released_ms = dict.fromkeys(self.folders, now_ms)

    def release(self, task: TaskId, now_ms: int) -> None:
        self.locked.discard(task)
        self.released_ms[task] = now_ms

    def idle(self, now_ms: int, delay_ms: int) -> list[TaskId]:
        return sorted(
            task
            for task in self.folders.keys() - self.locked
            if now_ms - self.released_ms.get(task, now_ms) >= delay_ms
        )


DISK_FAULTS = {"damage": Disk.damage, "full_disk": Disk.fill, "slow_disk": Disk.slow_down}
"""Kind of fault -> how it begins; ``mend`` ends each."""


class Stores:
    """All stores of one task (``tasks.stores.TaskStores``), without records.

    The constructor opens them; it raises ``StoreDamaged``.
    """

    def __init__(self, disk: Disk, task: TaskId) -> None:
        if disk.fails or task in disk.damaged:
            raise StoreDamaged(f"the stores of {task} are damaged")
        self._disk = disk
        self.task = task
        disk.folders.setdefault(task, {})

    def get(self, store: str, key: bytes) -> bytes | None:  # noqa: ARG002 - the port's signature
        return None

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:  # noqa: ARG002
        return [None] * len(keys)

    def range(
        self,
        store: str,  # noqa: ARG002
        start: bytes | None = None,  # noqa: ARG002
        end: bytes | None = None,  # noqa: ARG002
        *,
        reverse: bool = False,  # noqa: ARG002
    ) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def approximate_count(self, store: str) -> int:  # noqa: ARG002
        return 0

    def offsets(self) -> Mapping[TopicPartition, int]:
        return self._disk.folders[self.task]

    def write(
        self,
        writes: Mapping[str, Iterable[Write]],  # noqa: ARG002
        offsets: Mapping[TopicPartition, int],
    ) -> None:
        if self.task in self._disk.damaged:
            raise StoreDamaged(f"the stores of {self.task} are damaged")
        if self._disk.full:
            raise StateError(f"the stores of {self.task} cannot be written: the disk is full")
        self._disk.folders[self.task].update(offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self.write(writes, offsets)

    def identities(self) -> Mapping[str, str]:
        return {}

    def identify(self, identities: Mapping[str, str]) -> None:
        """Do nothing: changelogs are never created again here."""

    def wipe(self) -> None:
        self._disk.folders[self.task].clear()

    def close(self) -> None:
        """Nothing to close."""


class Reader:
    """Reads changelogs with a bandwidth that all partitions share (``restore.ports.ChangelogReader``)."""

    def __init__(self, logs: Logs, restored_per_s: int, disk: Disk) -> None:
        self._logs = logs
        self._usual_rate = restored_per_s
        self._disk = disk
        self._at: dict[TopicPartition, int] = {}
        self._goals: dict[TopicPartition, int] = {}
        self.passed_ms = 0
        """The time that the next ``poll`` may use."""

    @property
    def _rate(self) -> int:
        return self._usual_rate // SLOWER if self._disk.slow else self._usual_rate

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        self._at.update(positions)
        self._goals.update({name: self._logs.changelog_ends[name] for name in positions})

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._at.pop(partition, None)

    def poll(self, timeout_s: float) -> list[ChangelogBatch]:  # noqa: ARG002 - the port's signature
        """Read for the time that passed."""
        records, self.passed_ms = self._rate * self.passed_ms // 1000, 0
        batches = []
        for partition, share in self._shares(records):
            before = self._at[partition]
            at = self._at[partition] = before + share
            self._logs.restored += max(0, min(at, self._goals[partition]) - before)
            batches.append(ChangelogBatch(partition, [], at))
        return batches

    def _shares(self, records: int) -> Iterator[tuple[TopicPartition, int]]:
        """Divide so many records among the partitions with something to read; what one does not need, others get."""
        unread = sorted(self._unread().items(), key=itemgetter(1))
        for others, (partition, needed) in zip(reversed(range(len(unread))), unread, strict=True):
            share = min(needed, records // (others + 1))
            records -= share
            yield partition, share

    def _unread(self) -> dict[TopicPartition, int]:
        """Return how many records are left in each partition that has any."""
        ends = self._logs.readable
        return {name: end - at for name, at in self._at.items() if at < (end := ends[name])}

    def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        return {partition: Bounds(0, self._logs.changelog_ends[partition]) for partition in partitions}

    def left_ms(self) -> int | None:
        """Return the time until the first partition reaches its end; None: all are there."""
        unread = self._unread()
        return 1 + min(unread.values()) * len(unread) * 1000 // self._rate if unread else None

    def close(self) -> None:
        """Nothing to close."""
