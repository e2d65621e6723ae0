"""Open a task's stores where its subtopology declares them: on disk, in memory, or both.

A task that has no store on disk needs no folder. What must not live here: when to open them, and what becomes of them
(``restoring``).
"""

from __future__ import annotations

from kstreams_assign.adapters.rocksdb import RocksMemory, open_task_stores
from kstreams_assign.model import TaskId, TopologyShape
from kstreams_assign.state.directory import StateDirectory
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
    sub = shape.subtopologies[task.subtopology]
    in_memory, changelogs = sub.in_memory, shape.changelogs(application_id, task)
    kept = [store.name for store in sub.stores if store.name not in in_memory]
    if not kept:
        directory.discard(task, "all stores of the task are in memory now")
        return MemoryStores(in_memory)
    on_disk = open_task_stores(directory.task_path(task), kept, timestamped=sub.timestamped - in_memory, memory=memory)
    if not in_memory:
        return on_disk
    moved = {store: changelogs.get(store) for store in in_memory}
    try:
        for store, changelog in moved.items():
            on_disk.drop(store, changelog)
    except BaseException:
        on_disk.close()
        raise
    return MixedStores(on_disk, moved)
