"""When the processing loop commits: each interval, before a join or a close, and not while a join is under way.

What lives here: the turns of commits, and ``Held``, a task in this process. What must not: the steps of one commit
(``committing``), tasks coming and going (``processing``). Used on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.config import Config
from kstreams_assign.group import member as group_member
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.ports import TaskStores
from kstreams_assign.tasks.commit import CommitStep
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.worker.beside import BesideCalls
from kstreams_assign.worker.committing import Committer, OffsetCommits, Share
from kstreams_assign.worker.labour import Labour, Running
from kstreams_assign.worker.meters import DurationView, TaskTopic


class Group(OffsetCommits, Protocol):
    """What the loop asks of the membership."""

    def joined(self) -> bool: ...

    def handle(self, event: group_member.Event) -> None:
        """Report to the member's machine."""
        ...


class Fates(Protocol):
    """Receives what became of the tasks of a commit."""

    def failed(self, tasks: Iterable[TaskId], reason: str) -> None:
        """Nothing of their part counts; they go on from their last commit."""
        ...

    def well(self, tasks: Iterable[TaskId]) -> None:
        """Their part is committed."""
        ...


@dataclass(slots=True)
class Held:
    """A task in this process. ``inputs``, ``stores`` and ``running`` are only set while it is active or runs."""

    state: TaskState
    inputs: tuple[TopicPartition, ...] = ()
    stores: TaskStores | None = None
    running: Running | None = None


class CommitTurns:
    """Whose turn it is. ``held`` is the loop's own, and changes."""

    def __init__(
        self,
        config: Config,
        shape: TopologyShape,
        labour: Labour,
        committer: Committer,
        group: Group,
        held: Mapping[TaskId, Held],
        fates: Fates,
        committed: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self._config = config
        self._shape = shape
        self._labour = labour
        self._committer = committer
        self._group = group
        self._held = held
        self._fates = fates
        self._committed = committed
        self._holding = False
        self._next_ms = 0
        self._waiting: list[Callable[[], None]] = []
        self._called_after: list[Callable[[], None]] = []
        self._freed_after: list[Callable[[], None]] = []
        self._beside = BesideCalls(committer.advance_beside_a_call)

    def start(self) -> None:
        """Have the commit on its way carried on while the user's function runs."""
        self._beside.start()

    def calling(self) -> AbstractContextManager[None]:
        """Inside, the user's function runs. Raises what the commit on its way met meanwhile."""
        return self._beside.calling()

    @property
    def near(self) -> bool:
        """A commit is on its way, or will be at once."""
        return self._committer.busy or bool(self._waiting)

    @property
    def done_total(self) -> int:
        return self._committer.done_total

    @property
    def failed_total(self) -> int:
        return self._committer.failed_total

    @property
    def durations(self) -> DurationView:
        return self._committer.durations.view

    def records_produced(self) -> dict[TaskTopic, int]:
        """By task and topic, of the commits so far. From any thread."""
        return self._committer.records_produced.view()

    @property
    def aborted_total(self) -> int:
        return self._committer.aborted_total

    def turn(self) -> None:
        """Carry on the commit that is on its way; begin the next when it is due or awaited."""
        if self._committer.busy:
            end = self._committer.advance()
            if end is None:
                return
            self._ended(end)
        self._committer.settle()
        if self._waiting or (self._due and self._allowed):
            self._begin()

    def then(self, call: Callable[[], None]) -> None:
        """Commit at once, also while commits are held, and call when that is done."""
        self._waiting.append(call)

    def after(self, call: Callable[[], None]) -> None:
        """Call, in order, once no commit is on its way: a commit may use stores until it has ended, well or badly."""
        if self._committer.busy:
            self._freed_after.append(call)
        else:
            call()

    def before_join(self) -> None:
        """The member is about to join: commit what is due, then hold commits until the assignment is here.

        What was committed less than an interval ago (a follow-up comes right after a release) is not committed again.
        """
        if self._committer.busy:
            self._called_after.append(self._hold)
        elif monotonic_ms() < self._next_ms:
            self._hold()
        else:
            self._waiting.append(self._hold)

    def resume(self) -> None:
        """The assignment is here."""
        self._holding = False

    def abandon(self) -> None:
        """Forget the commit on its way, and what waits for one."""
        self._committer.abandon()
        self._called_after, self._waiting = [], []
        self._free()

    def tell_times(self, leaving: Iterable[Running]) -> None:
        """Exactly once, after the last commit of these: their partition times once more, as Java reads them."""
        committed = {p: (task.positions[p], text) for task in leaving for p, text in task.committed_metadata.items()}
        if committed and self._config.exactly_once and self._allowed and not self._committer.busy:
            self._committer.tell_times(
                {p: at for p, (at, _) in committed.items()}, {p: text for p, (_, text) in committed.items()}
            )

    def finish(self) -> None:
        """Bring the last commits to their end, as far as the group and the broker allow."""
        if self._finish_one() and self._allowed:
            self._begin()
            self._finish_one()

    def close(self) -> None:
        self._beside.close()
        self._committer.close()

    @property
    def _due(self) -> bool:
        return monotonic_ms() >= self._next_ms or self._labour.wants_commit()

    @property
    def _allowed(self) -> bool:
        return not self._holding and self._group.joined()

    def _begin(self) -> None:
        """Take everything that is done so far; what waits is called when it is committed."""
        self._next_ms = monotonic_ms() + self._config.commit_interval_ms
        self._called_after, self._waiting = self._waiting, []
        shares = [
            self._share(task, held, held.running)
            for task, held in self._held.items()
            if held.running is not None and held.running.news
        ]
        self._labour.commit_begins()
        if shares:
            self._committer.begin(shares)
        else:
            self._committer.forget()
            self._ended(CommitStep.DONE)

    def _share(self, task: TaskId, held: Held, running: Running) -> Share:
        """What a task brings into a commit."""
        changelogs = self._shape.changelogs(self._config.application_id, task)
        sources = self._shape.source_changelogs
        sourced = frozenset(partition for partition in changelogs.values() if partition.topic in sources)
        written = {store: partition for store, partition in changelogs.items() if partition not in sourced}
        timestamped = self._shape.subtopologies[task.subtopology].timestamped
        return Share(task, held.stores, written, timestamped, running.take(), running.workspace.landed, sourced)

    def _free(self) -> None:
        freed, self._freed_after = self._freed_after, []
        for call in freed:
            call()

    def _ended(self, end: CommitStep) -> None:
        self._free()
        called, self._called_after = self._called_after, []
        if end is CommitStep.FENCED:
            self._holding, self._waiting = True, []
            self._labour.commit_ends(end)
            self._group.handle(group_member.MembershipLost(f"commit ended as {end.value}"))
            return
        if end is CommitStep.DONE:
            self._committed(self._committer.offsets())
        if end is CommitStep.DEFERRED:
            self._keep_for_next(self._committer.offsets())
        self._tell_fates(end)
        self._labour.commit_ends(end)
        for waiting in called:
            waiting()

    def _tell_fates(self, end: CommitStep) -> None:
        failed = self._committer.failed()
        if failed:
            self._fates.failed(failed, self._committer.trouble)
        elif end is CommitStep.DONE:
            self._fates.well(self._committer.tasks())

    def _keep_for_next(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Also of a task that is about to leave: its writes are in the store already."""
        for held in self._held.values():
            if held.running is not None:
                for partition in offsets.keys() & held.inputs:
                    held.running.deferred.setdefault(partition, offsets[partition])

    def _finish_one(self) -> bool:
        """False where the commit on its way failed: another one would not fare better."""
        end = self._committer.advance(wait=True) if self._committer.busy else None
        if end is not None:
            self._ended(end)
        return end not in (CommitStep.FAILED, CommitStep.FENCED)

    def _hold(self) -> None:
        self._holding = True
        self._group.handle(group_member.WorkCommitted())
