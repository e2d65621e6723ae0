"""What is around the processing loop, for one process that is alone: the group, the restore thread, and the rest.

Nothing here has a thread, a file or a rule of its own. An answer to the loop goes into its inbox, as a real one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from kstreams_assign.adapters.clock import Clocks
from kstreams_assign.config import Config
from kstreams_assign.errors import KStreamsAssignError, StateError
from kstreams_assign.group import member
from kstreams_assign.group.values import MemberId, WarmupQueue
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.testing.broker import MemoryBroker
from kstreams_assign.worker.due_calls import TimedFunctions
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.on_error import OnError
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.task import Process

T = TypeVar("T")


class DriverClock:
    """Two clocks that stand still until the driver moves them, in milliseconds.

    ``passed_ms`` is the loop's: it also moves over pauses, which the test need not wait for.
    """

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.passed_ms = 0

    def advance(self, ms: int) -> None:
        """Let time pass on both clocks."""
        self.now_ms += ms
        self.passed_ms += ms

    def skip_to(self, passed_ms: int) -> None:
        """Let the loop's clock reach a time."""
        self.passed_ms = max(self.passed_ms, passed_ms)

    def clocks(self) -> Clocks:
        """Return the clocks as a loop takes them."""
        return Clocks(lambda: self.passed_ms, lambda: self.now_ms)


class DrivenFunctions(Functions):
    """The worker's ``Functions``; ``commits`` asks for a commit where a worker would wait for its interval."""

    def __init__(
        self,
        functions: Sequence[Process],
        config: Config,
        on_error: Sequence[OnError],
        now_ms: Callable[[], int],
        timed: Sequence[TimedFunctions],
        *,
        commits: bool,
    ) -> None:
        super().__init__(functions, config, on_error, now_ms, timed)
        self.commits = commits

    def wants_commit(self) -> bool:
        return self.commits or super().wants_commit()

    def commit_ends(self, end: CommitEnd) -> None:
        """A failure on purpose does not make the next commits smaller: it does not come from their size."""
        super().commit_ends(CommitEnd.DEFERRED if end is CommitEnd.FAILED else end)


class OnlyMember:
    """A membership that nothing ends (``worker.neighbours.Group``)."""

    losses = 0
    _ID = MemberId(1, "test-driver", None)

    def __init__(self, broker: MemoryBroker, lease_s: float) -> None:
        self._broker = broker
        self._lease_s = lease_s

    def joined(self) -> bool:
        return True

    def handle(self, event: member.Event) -> None:
        """Nothing waits for the loop."""

    def member(self) -> MemberId:
        return self._ID

    def transaction_member(self) -> MemberId:
        return self._ID

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,  # noqa: ARG002
        metadata: Mapping[TopicPartition, str],
        only_as: MemberId | None = None,  # noqa: ARG002
    ) -> None:
        self._broker.commit(offsets, metadata)

    def lease_left_s(self) -> float:
        return self._lease_s


class DirectRestore:
    """Gives each task its stores at once (``worker.neighbours.Restoring``): they always hold the last commit."""

    def __init__(self, broker: MemoryBroker, stores: Mapping[TaskId, TaskStores]) -> None:
        self._broker = broker
        self._stores = stores
        self.loop: Processor

    def restore(self, task: TaskId, _stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None:
        self.loop.ready(task, self._stores.get(task), self._broker.positions(inputs), 0)

    def failed(
        self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition], _error: StateError
    ) -> None:
        self.restore(task, stores, inputs)

    def tail(self, task: TaskId, stores: TaskStores | None) -> None:
        """A process that is alone has no standbys."""

    def close(self, task: TaskId, _stores: TaskStores | None, number: int) -> None:
        self.loop.closed(task, number)

    def queue(self, queue: WarmupQueue | None) -> None:
        """A process that is alone has no warm-ups."""


class DirectCalls:
    """Makes the calls of a commit at once (``worker.sender.Calls``)."""

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # the future raises it
            future.set_exception(error)
        return future

    def under_way_s(self) -> float:
        return 0.0

    def leave(self) -> None:
        """No call is under way."""

    def close(self, timeout_s: float) -> None:
        """There is no thread to end."""


class NoFolders:
    """A state directory without folders (``worker.neighbours.TaskFolders``)."""

    def lock_task(self, task: TaskId) -> None:
        """No other process has the folder."""

    def release_task(self, task: TaskId) -> None:
        """No other process has the folder."""


class NoDeletions:
    """Keeps what is consumed of repartition topics (``worker.purging.Deletions``), so that a test can read it."""

    busy = False

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Delete nothing."""

    def failures(self) -> Mapping[TopicPartition, KStreamsAssignError]:
        return {}
