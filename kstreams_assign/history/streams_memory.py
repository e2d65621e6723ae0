"""What the next records of a streams group (KIP-1071) have to know of those before, as values and as JSON.

What lives here: the values, and their translation to what JSON can hold. What must not: how records change them
(``streams_derive``), and rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Cell = list[Any]
"""JSON has no tuples."""


@dataclass
class StoredStreamsMember:
    """What a member's record of type 19 says of it. ``offset`` is that of the record."""

    offset: int
    process_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    endpoint: str | None
    tags: list[Cell]

    @property
    def about(self) -> tuple[object, ...]:
        """What a member changes only by joining again."""
        return self.process_id, self.endpoint, self.tags


@dataclass
class CurrentTasks:
    """A member's record of type 22. ``revoking``: active tasks that it still has and is to give up.

    ``dropping``: copies that it still has and is to give up.
    """

    epoch: int
    state: int
    active: list[str]
    standby: list[str]
    warmup: list[str]
    revoking: list[str]
    dropping: list[str]

    @property
    def running(self) -> set[str]:
        """The tasks that it may be working on."""
        return {*self.active, *self.revoking}

    @property
    def copies(self) -> set[str]:
        """The tasks that it keeps a copy of without running them."""
        return {*self.standby, *self.warmup, *self.dropping}


@dataclass
class Target:
    """A target assignment: the group as it was when its tasks were assigned.

    ``place`` is that of its rebalance; ``None`` until the rebalance ends and its row is written.
    """

    epoch: int
    began_ms: int | None
    members: dict[str, StoredStreamsMember]
    metadata_hash: int | None
    topology_epoch: int
    configs: dict[str, str]
    place: Cell | None = None


@dataclass
class StreamsMove:
    """A movement.

    ``settled``: its gap is as well known as it will be. ``place`` is that of the rebalance, which is known when the
    rebalance ends.
    """

    task: str
    from_process: str
    to_process: str
    planned: bool
    warm: bool | None
    held_ms: int | None
    released_ms: int | None
    taken_ms: int
    inputs: list[str]
    last_commit_ms: int | None
    gap_ms: int | None = None
    settled: bool = False
    place: Cell | None = None

    @property
    def complete(self) -> bool:
        """Whether its row can be written."""
        return self.settled and self.place is not None


@dataclass
class StreamsMemory:
    """One streams group.

    ``pending_since_ms``: when the group epoch first rose after the last target. ``target`` is the newest one,
    ``before`` the one before it. ``named``: the members that have a record of type 21. ``owners``: task -> the process
    that last ran it, and the offset of the record that gave it out. ``released``: task -> time and offset of the
    record that took it from its last owner, and whether the owner was still a member. ``copies``: task -> process ->
    since when it has had a copy, and whether a member still owns that copy: a process gives up its standby before it
    gets the task. ``sources`` and ``changelogs``: subtopology -> topics. ``commits``: input partition -> time and
    offset of its last commit.
    """

    epoch: int = -1
    epoch_ms: int = -1
    epoch_offset: int = -1
    metadata_hash: int | None = None
    configs: dict[str, str] = field(default_factory=dict)
    pending_since_ms: int | None = None
    topology_epoch: int = -1
    topology_offset: int = -1
    sources: dict[str, list[str]] = field(default_factory=dict)
    changelogs: dict[str, list[str]] = field(default_factory=dict)
    members: dict[str, StoredStreamsMember] = field(default_factory=dict)
    current: dict[str, CurrentTasks] = field(default_factory=dict)
    target: Target | None = None
    before: Target | None = None
    named: list[str] = field(default_factory=list)
    owners: dict[str, Cell] = field(default_factory=dict)
    released: dict[str, Cell] = field(default_factory=dict)
    copies: dict[str, dict[str, Cell]] = field(default_factory=dict)
    commits: dict[str, Cell] = field(default_factory=dict)
    moves: list[StreamsMove] = field(default_factory=list)

    def process_of(self, member_id: str) -> str | None:
        """The process of a member; ``None`` if no record shows it."""
        member = self.members.get(member_id)
        return None if member is None else member.process_id

    def inputs_of(self, task: str) -> list[str]:
        """The input partitions of a task; none while no topology was seen. A shorter topic may lack the partition."""
        subtopology, _, partition = task.rpartition("_")
        return [f"{topic}-{partition}" for topic in self.sources.get(subtopology, ())]


def as_fields(memory: StreamsMemory) -> dict[str, Any]:
    """The memory as JSON can hold it."""
    return asdict(memory)


def from_fields(fields: Mapping[str, Any]) -> StreamsMemory:
    """The memory that ``as_fields`` wrote."""
    read = dict(fields)
    read["members"] = _members(read["members"])
    read["current"] = {member: CurrentTasks(**tasks) for member, tasks in read["current"].items()}
    read["target"], read["before"] = _target(read["target"]), _target(read["before"])
    read["moves"] = [StreamsMove(**move) for move in read["moves"]]
    return StreamsMemory(**read)


def _members(fields: Mapping[str, Any]) -> dict[str, StoredStreamsMember]:
    return {member: StoredStreamsMember(**stored) for member, stored in fields.items()}


def _target(fields: Mapping[str, Any] | None) -> Target | None:
    return None if fields is None else Target(**{**fields, "members": _members(fields["members"])})
