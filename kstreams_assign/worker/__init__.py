"""Tasks at work: ``Worker`` and what the user's code sees."""

from __future__ import annotations

from kstreams_assign.worker.runtime import Worker
from kstreams_assign.worker.task import KeyValueStore, Subtopology, Task

__all__ = ["KeyValueStore", "Subtopology", "Task", "Worker"]
