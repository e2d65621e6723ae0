"""A commit in simulated time, as ``worker.committing`` makes it by the tables of ``tasks.commit``.

What lives here is time: how long each step takes, and what the broker answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kstreams_assign.client_settings import transaction_delivery_limit_ms
from kstreams_assign.engine.task_events import CommitEnded
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.broker import ignored
from kstreams_assign.sim.producer import RETRY_MS, Producer
from kstreams_assign.sim.transactions import TIMEOUT_MS, Answer, Verdict
from kstreams_assign.tasks.commit import CommitStep, Outcome, next_step

if TYPE_CHECKING:
    from kstreams_assign.sim.broker import Logs
    from kstreams_assign.sim.process import Process

Take = Callable[[Outcome], None]

TRANSACTIONAL = (
    CommitStep.BEGIN,
    CommitStep.OFFSETS,
    CommitStep.TRANSACTION,
    CommitStep.ABORT,
    CommitStep.WITHDRAW,
)
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
    """One task's part of a commit: ``records`` new in its changelog, and ``work``, the input offset that they reach.

    ``firsts``: where the input begins whose results these are.
    """

    task: TaskId
    records: int
    work: int
    offsets: Mapping[TopicPartition, int]
    firsts: Mapping[TopicPartition, int]


class Commits:
    """The commit under way: at most one at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._scenario = process.world.scenario
        self._number = 0
        self._step: CommitStep | None = None
        self._began_ms = 0
        self._shares: Sequence[Share] = ()
        self._appended = False
        self._ends: Mapping[TaskId, int] = {}
        self._producer = Producer(process) if self._scenario.exactly_once else None

    def begin(self, running: Mapping[TaskId, Running]) -> None:
        """Begin a commit of what these have processed. The loop's engine gets its end, at once or later."""
        now_ms = self._began_ms = self._world.timeline.now_ms
        self._number += 1
        self._appended = False
        shares = [self._share(task, each, now_ms) for task, each in running.items()]
        self._shares = [share for share in shares if share is not None]
        if not self._shares:
            self._process.loop.handle(CommitEnded(CommitStep.DONE))
            return
        self._step = CommitStep.LEASE
        self._advance()

    def abandon(self) -> None:
        self._number += 1
        self._step = None
        if self._producer is not None:
            self._producer.abort(lambda _: self._settle())

    def tell_times(self, running: Iterable[Running]) -> None:
        """Commit again what is committed, outside a transaction, as for the partition times of tasks that leave."""
        if offsets := {partition: at for each in running for partition, at in each.taken.items()}:
            self._process.membership.client.commit(offsets, ignored)

    def finish(self, end: CommitStep, running: Mapping[TaskId, Running]) -> None:
        """Keep the offsets of a deferred commit for the next."""
        if end is CommitStep.DEFERRED:
            for share in self._shares:
                if share.task in running:
                    for partition, at in share.offsets.items():
                        running[share.task].deferred.setdefault(partition, at)

    def _share(self, task: TaskId, running: Running, now_ms: int) -> Share | None:
        processed(running, self._world.logs, now_ms)
        if running.at == running.taken and not running.deferred:
            return None
        news = {partition: at for partition, at in running.at.items() if at != running.taken[partition]}
        offsets = {**running.deferred, **news}
        firsts = {partition: running.taken[partition] for partition in news}
        records = sum(at - firsts[partition] for partition, at in news.items())
        running.taken.update(news)
        running.deferred = {}
        return Share(task, records, max(running.at.values()), offsets, firsts)

    # --- the walk ---------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take the step; its outcome comes at once or later, unless the commit was abandoned meanwhile."""
        number, step = self._number, self._step

        def out(outcome: Outcome) -> None:
            if number == self._number and step is not None:
                self._step = next_step(step, outcome, exactly_once=self._producer is not None)
                self._advance()

        if step is CommitStep.LEASE:
            out(Outcome.OK if self._lease_left_ms > 0 else Outcome.EXPIRED)
        elif step is CommitStep.PRODUCE:
            out(Outcome.OK)
        elif step is CommitStep.FLUSH:
            self._process.run.later(self._world.commit_takes_ms(), self._flush, number, out)
        elif step is CommitStep.STORE:
            self._write_stores()
            out(Outcome.OK)
        elif self._producer is not None and step in TRANSACTIONAL:
            self._take(self._producer, step, out)
        elif step is CommitStep.OFFSETS:
            self._process.membership.client.commit(self._offsets(), out)
        elif step is not None:
            self._step = None
            self._ended(step)

    def _take(self, producer: Producer, step: CommitStep, out: Take) -> None:
        """Take a step that exactly once alone has, or takes in its own way."""
        if step is CommitStep.BEGIN:
            producer.begin(out)
        elif step is CommitStep.OFFSETS:
            producer.send_offsets(self._offsets(), out)
        elif step is CommitStep.TRANSACTION:
            producer.commit(out)
        else:
            producer.abort(lambda _: out(Outcome.OK))

    def _offsets(self) -> dict[TopicPartition, int]:
        return {partition: at for share in self._shares for partition, at in share.offsets.items()}

    def _write_stores(self) -> None:
        """Write to the stores what their changelogs now have, or exactly once what of this commit they have."""
        stores = self._process.loop.stores
        for share in self._shares:
            if share.task in stores:
                position = self._world.changelog_position(share.task, self._ends.get(share.task))
                stores[share.task].write({}, position)
                self._world.watch.stored(self._process, share.task, sum(position.values()))

    @property
    def _lease_left_ms(self) -> int:
        return self._process.membership.client.lease_left_ms(self._scenario.session_timeout_ms)

    def _flush(self, number: int, out: Take) -> None:
        """Send changelog records until they are acknowledged, the lease ends, or they have taken too long."""
        if number != self._number:
            return
        if self._lease_left_ms <= 0:
            out(Outcome.EXPIRED)
        elif self._world.timeline.now_ms - self._began_ms >= self._delivery_limit_ms:
            out(Outcome.UNDELIVERED)
        elif self._producer is None:
            self._send(number, out)
        else:
            self._send_in_transaction(self._producer, number, out)

    @property
    def _delivery_limit_ms(self) -> int:
        if self._producer is None:
            return self._scenario.session_timeout_ms * 2 // 3
        return transaction_delivery_limit_ms(TIMEOUT_MS)

    def _send(self, number: int, out: Take) -> None:
        shares = self._shares

        def append() -> Outcome:
            if number == self._number and not self._appended:
                self._appended = True
                self._world.append(self._process, shares)
            return Outcome.OK

        self._world.network.ask(self._process.run, append, out, lambda: self._flush(number, out))

    def _send_in_transaction(self, producer: Producer, number: int, out: Take) -> None:
        def answered(answer: Answer) -> None:
            if number != self._number:
                return
            self._ends = answer.ends
            if answer.verdict is Verdict.LATER:
                self._process.run.later(RETRY_MS, self._flush, number, out)
            else:
                out(Outcome.OK if answer.verdict is Verdict.DONE else Outcome.REFUSED)

        producer.append(self._shares, answered, lambda: self._flush(number, out))

    def _ended(self, end: CommitStep) -> None:
        tasks = [share.task for share in self._shares]
        self._settle()
        self._process.loop.handle(CommitEnded(end, tasks, tasks if end is CommitStep.FAILED else (), "not delivered"))

    def _settle(self) -> None:
        if self._producer is not None:
            self._producer.settle()


def processed(running: Running, logs: Logs, now_ms: int) -> None:
    """Bring ``running`` up to now."""
    if not running.stopped:
        most = (now_ms - running.since_ms) * RECORDS_PER_S // 1000
        firsts, grown = logs.firsts, logs.grown(now_ms)
        for partition, at in running.at.items():
            end = firsts.get(partition, 0) + grown
            running.at[partition] = min(at + most, end)
        running.since_ms = now_ms
