"""Values that the messages and records of streams groups (KIP-1071) share: tasks, subtopologies, endpoints.

Their field names are Kafka's; how they become bytes is in ``structs``, their layouts are in ``protocol/``. A task is
named by a subtopology id, which the protocol has as a string and Kafka Streams as a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.model import INT32_DIGITS_MAX, HostInfo, TaskId


@dataclass(frozen=True, slots=True)
class TaskIds:
    """The tasks of one subtopology."""

    subtopology_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TaskOffset:
    """A position in the changelogs of a task, added up."""

    subtopology_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a process answers key lookups. The text is ``HOST:PORT``, as that of ``HostInfo``."""

    host: str
    port: int

    def __str__(self) -> str:
        return str(HostInfo(self.host, self.port))


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic that the broker creates. Of a changelog ``partitions`` is 0 in a request; 0 replicas mean the default."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that need equally many partitions, as indexes into the lists of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A subtopology as a member declares it. Descriptions have neither patterns nor copartition groups."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


def task_ids(tasks: Iterable[TaskId]) -> tuple[TaskIds, ...]:
    """Return tasks as the protocol has them: sorted, a row for each subtopology."""
    rows = groupby(sorted(tasks), key=lambda task: task.subtopology)
    return tuple(TaskIds(str(number), tuple(task.partition for task in held)) for number, held in rows)


def tasks_of(rows: Iterable[TaskIds]) -> frozenset[TaskId]:
    """Return the tasks of the protocol's rows. Raises ``MalformedUserData`` for an id that is not a number."""
    return frozenset(TaskId(_number(row.subtopology_id), partition) for row in rows for partition in row.partitions)


def _number(subtopology_id: str) -> int:
    is_number = subtopology_id.isascii() and subtopology_id.isdecimal()
    if not is_number or len(subtopology_id) > INT32_DIGITS_MAX:
        raise MalformedUserData(f"subtopology id {subtopology_id!r} is not a number, as Kafka Streams writes it")
    return int(subtopology_id)
