"""What a restore thread reports to ``engine.restoring``. Some come from the restorer itself (``restore.loop``)."""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.engine.effects import Inputs
from kstreams_assign.errors import StateError
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Missing, Progress, StartedOver

Offsets = Mapping[TopicPartition, int]

# --- orders of the loop --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring an active task to the end of its changelogs, look up its input positions, and hand it out.

    ``offsets``: those of the stores that came with the order; None: none came. Then it is about stores that are here.
    """

    task: TaskId
    inputs: Inputs
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class Tail:
    """Keep a standby or warm-up up to date; ``offsets`` as in ``Restore``."""

    task: TaskId
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class Repair:
    """As ``Restore``, for stores that failed with this error; ``brought``: they came with the order."""

    task: TaskId
    inputs: Inputs
    error: StateError
    brought: bool


@dataclass(frozen=True, slots=True)
class Close:
    """Stop reading, close the stores, and report ``Closed`` with this number; ``brought`` as in ``Repair``."""

    task: TaskId
    number: int
    brought: bool


# --- answers, and what the restorer reports -------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """A task's stores are open and hold these offsets."""

    task: TaskId
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """A task's stores could not be opened."""

    task: TaskId
    error: StateError


@dataclass(frozen=True, slots=True)
class Discarded:
    """The folder of a task is thrown away because of this error."""

    task: TaskId
    cause: StateError


@dataclass(frozen=True, slots=True)
class DiscardFailed:
    """The folder of a task could not be thrown away; the error says why."""

    task: TaskId
    error: StateError


@dataclass(frozen=True, slots=True)
class PositionsFound:
    """The input positions of a task are known; ``number`` is that of the look-up."""

    task: TaskId
    number: int


@dataclass(frozen=True, slots=True)
class PositionsFailed:
    """The brokers did not return the input positions of a task."""

    task: TaskId
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Restored:
    """An active task stands at the end of its changelogs; the restorer gave its stores, with these offsets, back."""

    task: TaskId
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class StoresFailed:
    """A store that the restorer had failed, and the restorer gave the task's stores back."""

    task: TaskId
    error: StateError


@dataclass(frozen=True, slots=True)
class Woke:
    """Time has passed: some stopped tasks may be due."""


Event = (
    Restore
    | Tail
    | Repair
    | Close
    | Opened
    | OpenFailed
    | Discarded
    | DiscardFailed
    | PositionsFound
    | PositionsFailed
    | Progress
    | Restored
    | Missing
    | StartedOver
    | StoresFailed
    | Woke
)
"""``Progress``, ``Missing`` and ``StartedOver`` are the restorer's (``restore.loop``)."""
