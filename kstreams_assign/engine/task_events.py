"""What a shell reports to ``engine.tasks``. Some come from the member itself (``group.member``)."""

from __future__ import annotations

from collections.abc import Collection

from kstreams_assign.errors import StateError
from kstreams_assign.frozen import dataclass
from kstreams_assign.group import member
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitEnd


@dataclass(frozen=True, slots=True)
class Restored:
    """The stores of an active task are restored and in the loop's hands, and the positions of ``inputs`` are known.

    ``brought``: it has stores; a task without state has none.
    """

    task: TaskId
    inputs: Collection[TopicPartition]
    brought: bool = True


@dataclass(frozen=True, slots=True)
class Closed:
    """The stores of a task are closed; ``number`` is that of the order."""

    task: TaskId
    number: int


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """A store of a running task cannot be read."""

    task: TaskId
    error: StateError


@dataclass(frozen=True, slots=True)
class InputsLost:
    """The brokers no longer hold the records at which these inputs are; other positions have to be looked up."""

    inputs: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Turned:
    """The loop has been round.

    ``joined``: the member is in a stable generation. ``full``: no more can be processed uncommitted. ``lease_left_ms``:
    for how long the broker surely keeps the member.
    """

    joined: bool
    full: bool = False
    lease_left_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """``tasks`` took part in the commit. Those of ``failed`` go on from the commit before, for ``reason``."""

    end: CommitEnd
    tasks: Collection[TaskId] = ()
    failed: Collection[TaskId] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The process ends: commit what may be committed and close everything. With ``failed`` nothing is committed."""

    joined: bool
    failed: bool = False


Event = (
    member.Commit
    | member.Adopt
    | member.DropAll
    | Restored
    | Closed
    | StoreFailed
    | InputsLost
    | Turned
    | CommitEnded
    | StopAsked
)
"""The first three are the member's (``group.member``)."""
