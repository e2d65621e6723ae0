"""Open a task's stores where its subtopology declares them: on disk, in memory, or both.

A task that has no store on disk needs no folder. What must not live here: when to open them, and what becomes of them
(``restoring``).
"""

from __future__ import annotations

from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import TaskId, TopologyShape
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.tasks.expiry import store_names, with_expiry
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.mixed_stores import MixedStores
from kstreams_assign.tasks.stores import TaskStores


def open_stores(
    directory: StateDirectory,
    shape: TopologyShape,
    application_id: str,
    task: TaskId,
    memory: RocksMemory | None = None,
) -> TaskStores:
    """Return the open stores of a task whose folder is locked; those in memory are empty.

    What an earlier version of the application left on disk of a store that is in memory now is removed. Raises
    ``StoreDamaged`` and ``StateError`` as ``open_task_stores`` does, also if such a folder cannot be removed.
    """
    stores = _open(directory, shape, application_id, task, memory)
    try:
        return with_expiry(stores, shape.subtopologies[task.subtopology])
    except BaseException:
        stores.close()
        raise


def _open(
    directory: StateDirectory, shape: TopologyShape, application_id: str, task: TaskId, memory: RocksMemory | None
) -> TaskStores:
    """Open the stores, and the indexes of those that expire beside them."""
    sub = shape.subtopologies[task.subtopology]
    in_memory, changelogs = store_names(s for s in sub.stores if s.in_memory), shape.changelogs(application_id, task)
    kept = store_names(s for s in sub.stores if not s.in_memory)
    sources = shape.source_changelogs
    if not kept:
        directory.discard(task, "all stores of the task are in memory now")
        return MemoryStores(in_memory, sources)
    on_disk = open_task_stores(
        directory.task_path(task),
        kept,
        timestamped=sub.timestamped - sub.in_memory,
        memory=memory,
        sources=sources,
        changelogs={store: changelog.topic for store, changelog in changelogs.items()},
    )
    if not in_memory:
        return on_disk
    try:
        for store in in_memory:
            on_disk.drop(store)
    except BaseException:
        on_disk.close()
        raise
    return MixedStores(on_disk, {store: changelogs.get(store) for store in in_memory}, sources)
