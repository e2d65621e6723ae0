"""Assignments as a leader wrote them for a whole group: the bytes that all of them end with are read once.

After a member's own tasks come the host maps and the trailer: most of the bytes, and the same for all members. So one
assignment is read in full; of the next one that ends with the same bytes, only the part before them is read. What lives
here: that sharing. What must not: layouts, and what is done with the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.group.dialects import APACHE, Dialect
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.wire import AssignmentInfo
from kstreams_assign.wire.columns import task_ids, topic_partitions
from kstreams_assign.wire.compile import Record, layout
from kstreams_assign.wire.primitives import Source

OWN_FIELDS = ("version", "commonly_supported_version", "active_tasks", "standby_tasks")
"""Of AssignmentInfo, in wire order: what differs from member to member."""

ENDS_MAX = 8
"""How many ends are kept: before the trailer stands whether this member shall rejoin never, at once or at the probe."""

Inputs = Mapping[str, tuple[TopicPartition, ...]]
"""Task -> its input partitions."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """A member's own part: a task for each of its partitions, in order, and standbys with their input partitions."""

    active: tuple[str, ...]
    standby: Inputs


@dataclass(frozen=True, slots=True)
class ReadAssignment:
    """An assignment. ``common`` may be another one with the same end: take from it only what all members share."""

    own: Tasks
    common: AssignmentInfo


class Assignments:
    """Reads the assignments of one generation."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._ends: dict[bytes, AssignmentInfo] = {}

    def read(self, data: bytes) -> ReadAssignment:
        """As ``dialect.read_assignment`` does. Raises ``MalformedUserData``."""
        for end, common in self._ends.items():
            if data.endswith(end):
                own = _tasks(data[: len(data) - len(end)], common.version)
                if own is not None:
                    return ReadAssignment(own, common)
        info = self._dialect.read_assignment(data)
        if self._dialect is APACHE and len(self._ends) < ENDS_MAX:
            self._ends[data[_own_size(data, info.version) :]] = info
        return ReadAssignment(Tasks(tuple(map(task_text, info.active_tasks)), _by_text(info.standby_tasks)), info)


def _own_size(data: bytes, version: int) -> int:
    source = Source(data, "AssignmentInfo")
    _own_record(source, version)
    return source.at


def _own_record(source: Source, version: int) -> Record:
    fields = layout("AssignmentInfo", version).fields
    return {name: fields[name].read(source) for name in OWN_FIELDS if name in fields}


@lru_cache(maxsize=8192)
def _tasks(data: bytes, version: int) -> Tasks | None:
    """The tasks of an assignment without its end; None where it does not end here, or is of another version.

    A group's next generation gives most members what they had: then these are the same bytes.
    """
    source = Source(data, "AssignmentInfo")
    try:
        record = _own_record(source, version)
    except MalformedUserData:
        return None
    if source.left or record["version"] != version:
        return None
    rows = record["standby_tasks"]
    held = [topic_partitions(partition["topic"], partition["partition"]) for partition in rows["partitions"]]
    standby = _by_text(dict(zip(task_ids(rows), held, strict=True)))
    return Tasks(tuple(map(task_text, task_ids(record["active_tasks"]))), standby)


def _by_text(standby: Mapping[TaskId, tuple[TopicPartition, ...]]) -> Inputs:
    return {task_text(task): inputs for task, inputs in standby.items()}


@lru_cache(maxsize=1 << 16)
def task_text(task: TaskId) -> str:
    """Return a task as it stands in the tables. Raises ``MalformedUserData`` for a negative number."""
    if task.subtopology < 0 or task.partition < 0:
        raise MalformedUserData(f"task {task}: the numbers of its subtopology and partition must not be negative")
    return plain(str(task))


def plain(text: str) -> str:
    """``text`` without the halves of surrogate pairs that Java's strings may hold and no file of text can."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
