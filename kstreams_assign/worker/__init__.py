"""Tasks at work: ``Worker`` and what the user's code sees; ``GroupMember`` is the membership without the work.

All of it is imported when first used, as a sidecar's client needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstreams_assign.worker.group_member import Assignment, CommitDue, Drained, GroupMember, Lost
    from kstreams_assign.worker.runtime import Worker
    from kstreams_assign.worker.task import Subtopology, Task
    from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore

__all__ = [
    "Assignment",
    "CommitDue",
    "Drained",
    "GroupMember",
    "KeyValueStore",
    "Lost",
    "Subtopology",
    "Task",
    "TimestampedKeyValueStore",
    "Worker",
]

_MODULE_OF = {
    **dict.fromkeys(("Assignment", "CommitDue", "Drained", "GroupMember", "Lost"), "group_member"),
    **dict.fromkeys(("Subtopology", "Task"), "task"),
    **dict.fromkeys(("KeyValueStore", "TimestampedKeyValueStore"), "views"),
    "Worker": "runtime",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
