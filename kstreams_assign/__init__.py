"""Kafka Streams' group protocol and KIP-441 in Python: tasks move only after their state is warm.

``Worker`` runs a topology as a full member, and leader, of a Kafka Streams group. ``GroupMember`` is the membership
alone, for programs with a loop of their own. ``SidecarClient`` is a session with a worker that runs beside the program.

All public names are here. Each is imported when it is first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names as in the table below, for type checkers and editors; a test compares them
    from kstreams_assign.adapters.confluent.registry import registry_serde as registry_serde
    from kstreams_assign.config import Config as Config
    from kstreams_assign.errors import AssignmentRefused as AssignmentRefused
    from kstreams_assign.errors import BrokerError as BrokerError
    from kstreams_assign.errors import BrokerUnavailable as BrokerUnavailable
    from kstreams_assign.errors import CommitDeferred as CommitDeferred
    from kstreams_assign.errors import CommitRefused as CommitRefused
    from kstreams_assign.errors import ConfigError as ConfigError
    from kstreams_assign.errors import DeliveryFailed as DeliveryFailed
    from kstreams_assign.errors import ExtraMissing as ExtraMissing
    from kstreams_assign.errors import GroupNotFound as GroupNotFound
    from kstreams_assign.errors import InstanceFenced as InstanceFenced
    from kstreams_assign.errors import InvalidTaskId as InvalidTaskId
    from kstreams_assign.errors import KeyNotLocal as KeyNotLocal
    from kstreams_assign.errors import KStreamsAssignError as KStreamsAssignError
    from kstreams_assign.errors import LocalBrokerError as LocalBrokerError
    from kstreams_assign.errors import MalformedFrame as MalformedFrame
    from kstreams_assign.errors import MalformedUserData as MalformedUserData
    from kstreams_assign.errors import NotAStreamsGroup as NotAStreamsGroup
    from kstreams_assign.errors import OffsetOutOfRange as OffsetOutOfRange
    from kstreams_assign.errors import PartitionsAbsent as PartitionsAbsent
    from kstreams_assign.errors import QueryRefused as QueryRefused
    from kstreams_assign.errors import RecordRefused as RecordRefused
    from kstreams_assign.errors import RegistryError as RegistryError
    from kstreams_assign.errors import SerializationError as SerializationError
    from kstreams_assign.errors import ShutdownRequested as ShutdownRequested
    from kstreams_assign.errors import SidecarDisconnected as SidecarDisconnected
    from kstreams_assign.errors import SidecarError as SidecarError
    from kstreams_assign.errors import SidecarRefused as SidecarRefused
    from kstreams_assign.errors import SimulationStuck as SimulationStuck
    from kstreams_assign.errors import SparkError as SparkError
    from kstreams_assign.errors import StateDirectoryLocked as StateDirectoryLocked
    from kstreams_assign.errors import StateError as StateError
    from kstreams_assign.errors import StoreDamaged as StoreDamaged
    from kstreams_assign.errors import StoreNotAvailable as StoreNotAvailable
    from kstreams_assign.errors import TaskMigrated as TaskMigrated
    from kstreams_assign.errors import TaskNotLocal as TaskNotLocal
    from kstreams_assign.errors import TopicNotFound as TopicNotFound
    from kstreams_assign.errors import TopologyMismatch as TopologyMismatch
    from kstreams_assign.errors import TransactionAborted as TransactionAborted
    from kstreams_assign.errors import WorkerNotRunning as WorkerNotRunning
    from kstreams_assign.events import Event as Event
    from kstreams_assign.events import EventListener as EventListener
    from kstreams_assign.model import HostInfo as HostInfo
    from kstreams_assign.model import RepartitionTopic as RepartitionTopic
    from kstreams_assign.model import Store as Store
    from kstreams_assign.model import SubtopologyShape as SubtopologyShape
    from kstreams_assign.model import TaskId as TaskId
    from kstreams_assign.model import TopicPartition as TopicPartition
    from kstreams_assign.query.client import QueryClient as QueryClient
    from kstreams_assign.query.client import QueryResult as QueryResult
    from kstreams_assign.serdes.named import Serdes as Serdes
    from kstreams_assign.serdes.serde import Serde as Serde
    from kstreams_assign.sidecar.aio import AsyncSidecarClient as AsyncSidecarClient
    from kstreams_assign.sidecar.client import Columns as Columns
    from kstreams_assign.sidecar.client import InputRecord as InputRecord
    from kstreams_assign.sidecar.client import InputTimer as InputTimer
    from kstreams_assign.sidecar.client import Polled as Polled
    from kstreams_assign.sidecar.client import SidecarClient as SidecarClient
    from kstreams_assign.tasks.punctuation import Punctuation as Punctuation
    from kstreams_assign.tasks.record import Headers as Headers
    from kstreams_assign.tasks.record import Record as Record
    from kstreams_assign.tasks.stamped import ValueAndTime as ValueAndTime
    from kstreams_assign.tasks.timers import Timer as Timer
    from kstreams_assign.testing.driver import TopologyTestDriver as TopologyTestDriver
    from kstreams_assign.testing.typed import InputTopic as InputTopic
    from kstreams_assign.testing.typed import OutputTopic as OutputTopic
    from kstreams_assign.topology.flows import Repartition as Repartition
    from kstreams_assign.topology.global_tables import GlobalTable as GlobalTable
    from kstreams_assign.worker.batch import Batch as Batch
    from kstreams_assign.worker.global_views import ReadOnlyKeyValueStore as ReadOnlyKeyValueStore
    from kstreams_assign.worker.global_views import ReadOnlyTimestampedKeyValueStore as ReadOnlyTimestampedKeyValueStore
    from kstreams_assign.worker.group_member import Assignment as Assignment
    from kstreams_assign.worker.group_member import CommitDue as CommitDue
    from kstreams_assign.worker.group_member import Drained as Drained
    from kstreams_assign.worker.group_member import GroupEvent as GroupEvent
    from kstreams_assign.worker.group_member import GroupMember as GroupMember
    from kstreams_assign.worker.group_member import Lost as Lost
    from kstreams_assign.worker.lookup import Location as Location
    from kstreams_assign.worker.stream_worker import Worker as Worker
    from kstreams_assign.worker.task import FireTimers as FireTimers
    from kstreams_assign.worker.task import Init as Init
    from kstreams_assign.worker.task import Process as Process
    from kstreams_assign.worker.task import Punctuator as Punctuator
    from kstreams_assign.worker.task import Subtopology as Subtopology
    from kstreams_assign.worker.task import Task as Task
    from kstreams_assign.worker.timing import Timers as Timers
    from kstreams_assign.worker.typed import Sink as Sink
    from kstreams_assign.worker.typed import TypedKeyValueStore as TypedKeyValueStore
    from kstreams_assign.worker.typed import TypedTimestampedKeyValueStore as TypedTimestampedKeyValueStore
    from kstreams_assign.worker.views import KeyValueStore as KeyValueStore
    from kstreams_assign.worker.views import TimestampedKeyValueStore as TimestampedKeyValueStore

__version__ = "0.1.0"

_NAMES_BY_MODULE = {
    "adapters.confluent.registry": ("registry_serde",),
    "config": ("Config",),
    "errors": (
        "AssignmentRefused",
        "BrokerError",
        "BrokerUnavailable",
        "CommitDeferred",
        "CommitRefused",
        "ConfigError",
        "DeliveryFailed",
        "ExtraMissing",
        "GroupNotFound",
        "InstanceFenced",
        "InvalidTaskId",
        "KeyNotLocal",
        "KStreamsAssignError",
        "LocalBrokerError",
        "MalformedFrame",
        "MalformedUserData",
        "NotAStreamsGroup",
        "OffsetOutOfRange",
        "PartitionsAbsent",
        "QueryRefused",
        "RecordRefused",
        "RegistryError",
        "SerializationError",
        "ShutdownRequested",
        "SidecarDisconnected",
        "SidecarError",
        "SidecarRefused",
        "SimulationStuck",
        "SparkError",
        "StateDirectoryLocked",
        "StateError",
        "StoreDamaged",
        "StoreNotAvailable",
        "TaskMigrated",
        "TaskNotLocal",
        "TopicNotFound",
        "TopologyMismatch",
        "TransactionAborted",
        "WorkerNotRunning",
    ),
    "events": ("Event", "EventListener"),
    "model": ("HostInfo", "RepartitionTopic", "Store", "SubtopologyShape", "TaskId", "TopicPartition"),
    "query.client": ("QueryClient", "QueryResult"),
    "tasks.punctuation": ("Punctuation",),
    "serdes.named": ("Serdes",),
    "serdes.serde": ("Serde",),
    "tasks.record": ("Headers", "Record"),
    "tasks.stamped": ("ValueAndTime",),
    "tasks.timers": ("Timer",),
    "testing.driver": ("TopologyTestDriver",),
    "testing.typed": ("InputTopic", "OutputTopic"),
    "topology.flows": ("Repartition",),
    "worker.batch": ("Batch",),
    "topology.global_tables": ("GlobalTable",),
    "worker.global_views": ("ReadOnlyKeyValueStore", "ReadOnlyTimestampedKeyValueStore"),
    "worker.group_member": ("Assignment", "CommitDue", "Drained", "GroupEvent", "GroupMember", "Lost"),
    "worker.lookup": ("Location",),
    "sidecar.aio": ("AsyncSidecarClient",),
    "sidecar.client": ("Columns", "InputRecord", "InputTimer", "Polled", "SidecarClient"),
    "worker.stream_worker": ("Worker",),
    "worker.task": ("FireTimers", "Init", "Process", "Punctuator", "Subtopology", "Task"),
    "worker.timing": ("Timers",),
    "worker.typed": ("Sink", "TypedKeyValueStore", "TypedTimestampedKeyValueStore"),
    "worker.views": ("KeyValueStore", "TimestampedKeyValueStore"),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _NAMES_BY_MODULE.items() for name in names}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # one table for all


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
