"""How much disk each task's state takes, measured now and then by one thread."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kstreams_assign.engine.warm_disk import Disk
from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import StateDirectory

INTERVAL_S = 10.0
SHARE_MAX = 0.01
"""Measuring takes this share of a thread at most: with many files it happens less often."""

RESERVE = 0.1
"""The share of a disk that stays free: RocksDB writes files again before it deletes the old ones."""


class StateSizes:
    """Task -> bytes of its folder, whether it is open, closed or of no task that is assigned here."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._next_s = 0.0
        self.bytes_by_task: Mapping[TaskId, int] = {}

    def turn(self) -> None:
        """Measure if it is time to. The sizes stay as they are where the directory cannot be listed."""
        began_s = time.monotonic()
        if began_s < self._next_s:
            return
        directory = self._directory
        with suppress(OSError):  # the cleaner reports the disk, and creates a deleted directory again
            self.bytes_by_task = {task: folder_bytes(directory.task_path(task)) for task in directory.tasks_on_disk()}
        ended_s = time.monotonic()
        self._next_s = ended_s + max(INTERVAL_S, (ended_s - began_s) / SHARE_MAX)


def measure_disk(directory: StateDirectory) -> Disk | None:
    """Return the disk of the state directory as it is now; None while the directory is deleted or cannot be read."""
    try:
        disk = shutil.disk_usage(directory.path)
        held = {task: folder_bytes(directory.task_path(task)) for task in directory.tasks_on_disk()}
    except OSError:
        return None
    return Disk(disk.free, round(disk.total * RESERVE), held)


def folder_bytes(folder: Path) -> int:
    """Bytes of the files in a folder and below it; files that are deleted meanwhile count nothing."""
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:  # the cleaner deletes folders
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                total += folder_bytes(Path(entry.path))
            else:
                with suppress(OSError):  # RocksDB deletes files
                    total += entry.stat(follow_symlinks=False).st_size
    return total
