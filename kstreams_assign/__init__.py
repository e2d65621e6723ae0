"""Kafka Streams' group protocol and KIP-441 in Python: tasks move only when their state is warm.

``Worker`` runs a topology as a full member, and leader, of a Kafka Streams group; ``GroupMember`` is the membership alone,
for programs with a loop of their own. The names below are the public API;
they are imported when first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstreams_assign.config import Config
    from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition
    from kstreams_assign.tasks.record import Record
    from kstreams_assign.tasks.stamped import ValueAndTime
    from kstreams_assign.topology.flows import Repartition
    from kstreams_assign.worker import (
        Assignment,
        CommitDue,
        Drained,
        GroupMember,
        KeyValueStore,
        Lost,
        Subtopology,
        Task,
        TimestampedKeyValueStore,
        Worker,
    )
    from kstreams_assign.worker.sidecar.aio import AsyncSidecarClient
    from kstreams_assign.worker.sidecar.client import SidecarClient

__version__ = "0.1.0"
__all__ = [
    "Assignment",
    "AsyncSidecarClient",
    "CommitDue",
    "Config",
    "Drained",
    "GroupMember",
    "KeyValueStore",
    "Lost",
    "Record",
    "Repartition",
    "SidecarClient",
    "Store",
    "Subtopology",
    "SubtopologyShape",
    "Task",
    "TaskId",
    "TimestampedKeyValueStore",
    "TopicPartition",
    "ValueAndTime",
    "Worker",
]

_ROOM_OF = {
    "Assignment": "kstreams_assign.worker",
    "AsyncSidecarClient": "kstreams_assign.worker.sidecar.aio",
    "CommitDue": "kstreams_assign.worker",
    "Config": "kstreams_assign.config",
    "Drained": "kstreams_assign.worker",
    "GroupMember": "kstreams_assign.worker",
    "KeyValueStore": "kstreams_assign.worker",
    "Lost": "kstreams_assign.worker",
    "Record": "kstreams_assign.tasks.record",
    "Repartition": "kstreams_assign.topology.flows",
    "SidecarClient": "kstreams_assign.worker.sidecar.client",
    "Store": "kstreams_assign.model",
    "Subtopology": "kstreams_assign.worker",
    "SubtopologyShape": "kstreams_assign.model",
    "Task": "kstreams_assign.worker",
    "TaskId": "kstreams_assign.model",
    "TimestampedKeyValueStore": "kstreams_assign.worker",
    "TopicPartition": "kstreams_assign.model",
    "ValueAndTime": "kstreams_assign.tasks.stamped",
    "Worker": "kstreams_assign.worker",
}


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOM_OF[name]), name)
