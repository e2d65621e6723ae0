"""What ``engine.restoring`` asks of a restore thread. Each handles every kind; ``assert_never`` makes mypy prove it.

A task's stores are in the thread's own hands from an order that brought them, from ``OpenStores``, from
``TakeFromRestorer``, or from an event with which the restorer gave them back; until ``ReadChangelogs``, ``HandOut`` or
``CloseStores``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.engine.effects import Inputs
from kstreams_assign.errors import StateError
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Purpose

# --- stores and folders -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenStores:
    """Open a task's stores; report ``Opened`` or ``OpenFailed``."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class CloseStores:
    """Close a task's stores."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class DiscardFolder:
    """Throw away the folder of a task whose stores are damaged; report ``Discarded`` or ``DiscardFailed``."""

    task: TaskId
    cause: StateError


# --- the restorer -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadChangelogs:
    """Give a task's stores to the restorer, which reads each changelog into the store of this name."""

    task: TaskId
    store_of: Mapping[TopicPartition, str]
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Repurpose:
    """Promote or demote a task that the restorer has."""

    task: TaskId
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class TakeFromRestorer:
    """Read no more changelogs of a task, and take its stores back."""

    task: TaskId


# --- the processing loop --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookUpPositions:
    """Look up where a task's inputs are to be read from; report ``PositionsFound`` or ``PositionsFailed``."""

    task: TaskId
    number: int
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class HandOut:
    """Give a task to the loop, with its stores if it has any, and with its newest input positions.

    ``restored``: the changelog offsets that were read since it became active.
    """

    task: TaskId
    restored: int


@dataclass(frozen=True, slots=True)
class ReportClosed:
    """Let the loop know that a task's stores are closed; ``number`` is that of the order."""

    task: TaskId
    number: int


# --- reports --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportOffsets:
    """Report these offsets of a task that is restored or tailed in the next join."""

    task: TaskId
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ReportDormant:
    """From now on report the offsets of a task's stores, which are in the thread's hands, as those of a closed task."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class ReportNothing:
    """Report no offsets of a task: its stores cannot be relied on."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class CountOffsets:
    """Add to the changelog offsets that a task has read as this."""

    task: TaskId
    purpose: Purpose
    offsets: int


@dataclass(frozen=True, slots=True)
class AnnounceStopped:
    """A task cannot work here; it is tried again in ``retry_ms``."""

    task: TaskId
    reason: str
    retry_ms: int


@dataclass(frozen=True, slots=True)
class AnnounceResumed:
    """A task that was announced as stopped works."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class AnnounceDiscarded:
    """The folder of a task is thrown away."""

    task: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceWiped:
    """A task's stores did not fit its changelogs, and are restored from the start."""

    task: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceLookUpFailed:
    """A task waits for nothing but its input positions, and the brokers did not return them."""

    task: TaskId
    reason: str


Effect = (
    OpenStores
    | CloseStores
    | DiscardFolder
    | ReadChangelogs
    | Repurpose
    | TakeFromRestorer
    | LookUpPositions
    | HandOut
    | ReportClosed
    | ReportOffsets
    | ReportDormant
    | ReportNothing
    | CountOffsets
    | AnnounceStopped
    | AnnounceResumed
    | AnnounceDiscarded
    | AnnounceWiped
    | AnnounceLookUpFailed
)
