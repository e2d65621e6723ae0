"""Commits in simulated time, as ``worker.turns`` and ``worker.committing`` make them by ``tasks.commit``'s table.

What lives here is time: how long each step takes, and what the broker answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kstreams_assign.group import member as machine
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitStep, Outcome, next_step

if TYPE_CHECKING:
    from kstreams_assign.sim.broker import Logs
    from kstreams_assign.sim.process import Process

RECORDS_PER_S = 2_000
"""Of one input partition, at the most."""


@dataclass(slots=True)
class Running:
    """A running task: ``at`` is its input offset at ``since_ms``, ``taken`` the offset that the last commit covers."""

    at: dict[TopicPartition, int]
    taken: dict[TopicPartition, int]
    since_ms: int
    deferred: dict[TopicPartition, int] = field(default_factory=dict)
    stopped: bool = False


class Share(NamedTuple):
    """One task's part of a commit: ``records`` new in its changelog, and ``work``, the input offset that they reach."""

    task: TaskId
    records: int
    work: int
    offsets: Mapping[TopicPartition, int]


class Commits:
    """One commit at a time, each interval and on request; none while a join is under way."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._scenario = process.world.scenario
        self._running: Mapping[TaskId, Running] = {}
        self._holding = False
        self._number = 0
        self._step: CommitStep | None = None
        self._began_ms = self._next_ms = 0
        self._shares: Sequence[Share] = ()
        self._waiting: list[Callable[[], None]] = []
        self._called_after: list[Callable[[], None]] = []
        self._appended = False

    def connect(self, running: Mapping[TaskId, Running]) -> None:
        """``running`` is the loop's own, and changes."""
        self._running = running
        self._process.run.later(self._scenario.commit_interval_ms, self._tick)

    def _tick(self) -> None:
        self._process.run.later(self._scenario.commit_interval_ms, self._tick)
        if not self._holding and self._process.membership.client.joined and self._running:
            self.turn()

    def turn(self) -> None:
        """Begin a commit unless one is on its way."""
        if self._step is None:
            self._begin()

    def then(self, call: Callable[[], None]) -> None:
        """Commit at once, also while commits are held, and call when that is done."""
        self._waiting.append(call)
        self.turn()

    def before_join(self) -> None:
        """Commit what is due, then hold commits until the assignment is here."""
        if self._step is not None:
            self._called_after.append(self._hold)
        elif self._world.timeline.now_ms < self._next_ms:
            self._hold()
        else:
            self.then(self._hold)

    def all_before_join(self) -> None:
        """Commit everything, however short ago the last commit was, then hold."""
        self.then(self._hold)

    def resume(self) -> None:
        self._holding = False

    def abandon(self) -> None:
        self._number += 1
        self._step = None
        self._called_after, self._waiting = [], []

    def _hold(self) -> None:
        self._holding = True
        self._process.membership.handle(machine.WorkCommitted())

    def _begin(self) -> None:
        now_ms = self._world.timeline.now_ms
        self._next_ms, self._began_ms = now_ms + self._scenario.commit_interval_ms, now_ms
        self._called_after, self._waiting = self._waiting, []
        self._number += 1
        self._appended = False
        shares = [self._share(task, one, now_ms) for task, one in self._running.items()]
        self._shares = [share for share in shares if share is not None]
        if not self._shares:
            self._ended(CommitStep.DONE)
            return
        self._step = CommitStep.LEASE
        self._advance()

    def _share(self, task: TaskId, one: Running, now_ms: int) -> Share | None:
        processed(one, self._world.logs, now_ms)
        if one.at == one.taken and not one.deferred:
            return None
        news = {partition: at for partition, at in one.at.items() if at != one.taken[partition]}
        offsets = {**one.deferred, **news}
        records = sum(at - one.taken[partition] for partition, at in news.items())
        one.taken.update(news)
        one.deferred = {}
        return Share(task, records, max(one.at.values()), offsets)

    # --- the walk ---------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take the step; its outcome comes at once or later, unless the commit was abandoned meanwhile."""
        number, step = self._number, self._step

        def out(outcome: Outcome) -> None:
            if number == self._number and step is not None:
                self._step = next_step(step, outcome)
                self._advance()

        if step is CommitStep.LEASE:
            out(Outcome.OK if self._lease_left_ms > 0 else Outcome.EXPIRED)
        elif step is CommitStep.PRODUCE:
            out(Outcome.OK)
        elif step is CommitStep.FLUSH:
            self._process.run.later(self._world.commit_takes_ms(), self._flush, number, out)
        elif step is CommitStep.STORE:
            self._process.loop.landed(self._shares)
            out(Outcome.OK)
        elif step is CommitStep.OFFSETS:
            offsets = {partition: at for share in self._shares for partition, at in share.offsets.items()}
            self._process.membership.client.commit(offsets, out)
        elif step is not None:
            self._step = None
            self._ended(step)

    @property
    def _lease_left_ms(self) -> int:
        return self._process.membership.client.lease_left_ms(self._scenario.session_timeout_ms)

    def _flush(self, number: int, out: Callable[[Outcome], None]) -> None:
        """Send changelog records until they are acknowledged or the lease ends (two thirds of the session timeout)."""
        if number != self._number:
            return
        if self._lease_left_ms <= 0:
            out(Outcome.EXPIRED)
            return
        if self._world.timeline.now_ms - self._began_ms >= self._scenario.session_timeout_ms * 2 // 3:
            out(Outcome.UNDELIVERED)
            return
        shares = self._shares

        def append() -> Outcome:
            if number == self._number and not self._appended:
                self._appended = True
                self._world.append(self._process, shares)
            return Outcome.OK

        self._world.network.ask(self._process.run, append, out, lambda: self._flush(number, out))

    def _ended(self, end: CommitStep) -> None:
        called, self._called_after = self._called_after, []
        if end is CommitStep.FENCED:
            self._holding, self._waiting = True, []
            self._process.membership.handle(machine.MembershipLost(f"commit ended as {end.value}"))
            self._process.loop.give_up()
            return
        if end is CommitStep.DEFERRED:
            for share in self._shares:
                if share.task in self._running:
                    for partition, at in share.offsets.items():
                        self._running[share.task].deferred.setdefault(partition, at)
        if end is CommitStep.FAILED:
            self._process.loop.failed([share.task for share in self._shares])
        for waiting in called:
            waiting()
        if self._waiting and self._step is None:
            self._begin()


def processed(one: Running, logs: Logs, now_ms: int) -> None:
    """Bring ``one`` up to now."""
    if not one.stopped:
        most = (now_ms - one.since_ms) * RECORDS_PER_S // 1000
        firsts, grown = logs.firsts, logs.grown(now_ms)
        for partition, at in one.at.items():
            end = firsts.get(partition, 0) + grown
            one.at[partition] = min(at + most, end)
        one.since_ms = now_ms
