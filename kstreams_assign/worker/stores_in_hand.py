"""The stores that are in the processing loop's hands, behind the record cache, and how they go to the restore thread.

What must not live here: when a task's stores change hands; the engine decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import assert_never

from kstreams_assign.engine import effects as do
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.record_cache import RecordCache
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.topology.flows import Flow
from kstreams_assign.worker.neighbours import Restoring, TaskFolders

StoreEffect = do.LockFolder | do.ReleaseFolder | do.QueueWarmups | do.HandOver | do.ReportStore | do.ReportNothing


def offsets_of(stores: TaskStores, changelogs: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offsets that the stores hold of these changelogs.

    On disk they may hold more: the offset of a store that the application no longer has, or no longer logs. No end
    offset belongs to it, so it must be in no sum.
    """
    return {partition: offset for partition, offset in stores.offsets().items() if partition in changelogs}


class StoresInHand:
    """Used on the loop's thread. ``restoring`` is set before the first effect.

    ``changelogs`` returns the changelogs that a task has in this version of the application.
    """

    restoring: Restoring

    def __init__(
        self,
        directory: TaskFolders,
        sums: OffsetSums,
        flows: Sequence[Flow],
        cache_bytes: int,
        changelogs: Callable[[TaskId], Collection[TopicPartition]],
    ) -> None:
        self._directory = directory
        self._sums = sums
        self._flows = flows
        self._changelogs = changelogs
        self._cache = RecordCache(cache_bytes)
        self.stores: dict[TaskId, TaskStores] = {}

    def take(self, task: TaskId, stores: TaskStores) -> None:
        """Take a task's stores from the restore thread."""
        self.stores[task] = self._cache.over(stores, self._flows[task.subtopology].shape.on_disk)

    def carry_out(self, effect: StoreEffect) -> None:
        """Lock a folder, give stores away, or report how far they are."""
        match effect:
            case do.LockFolder():
                self._directory.lock_task(effect.task)
            case do.ReleaseFolder():
                self._directory.release_task(effect.task)
            case do.QueueWarmups():
                self.restoring.queue(effect.queue)
            case do.ReportStore():
                if (stores := self.stores.get(effect.task)) is not None:
                    self._sums.restoring(effect.task, offsets_of(stores, self._changelogs(effect.task)))
            case do.ReportNothing():
                self._sums.forget(effect.task)
            case _:
                self._hand_over(effect, self.stores.pop(effect.task, None))

    def _hand_over(self, effect: do.HandOver, cached: TaskStores | None) -> None:
        stores = None if cached is None else self._cache.disclose(cached)
        match effect:
            case do.RestoreTask(task, inputs):
                self.restoring.restore(task, stores, inputs)
            case do.RepairTask(task, inputs, error):
                self.restoring.failed(task, stores, inputs, error)
            case do.TailTask(task):
                self.restoring.tail(task, stores)
            case do.CloseTask(task, number):
                self.restoring.close(task, stores, number)
            case _:
                assert_never(effect)
