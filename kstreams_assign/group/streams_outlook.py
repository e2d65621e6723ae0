"""What a process would get in a streams group (KIP-1071): a prediction as the value that a waiting process decides by.

What must not live here: the prediction (``observe.streams_join``), and whether to wait (``engine.warm_join``).
"""

from __future__ import annotations

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a process would get if it joined now: ``active`` tasks, those of them with ``state``, ``standby`` tasks.

    ``at_once``: why it should join without restoring anything first, and then the tasks are not known; None: it may
    wait.
    """

    active: frozenset[TaskId] = frozenset()
    state: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    at_once: str | None = None

    @property
    def restorable(self) -> frozenset[TaskId]:
        """Return the tasks whose state can be restored before joining."""
        return self.state | self.standby
