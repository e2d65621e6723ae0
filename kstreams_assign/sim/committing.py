"""A commit's shell in simulated time, as ``worker.committing`` is it on a real broker.

What lives here is time: how long each step takes, and what the broker answers. ``engine.commits`` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, assert_never

from kstreams_assign.client_settings import delivery_limit_ms, transaction_delivery_limit_ms
from kstreams_assign.engine import commits as engine
from kstreams_assign.errors import StateError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.outputs import Outputs, Sent, send_under_lease
from kstreams_assign.sim.producer import RETRY_MS, Producer
from kstreams_assign.sim.transactions import TIMEOUT_MS, Answer, Verdict
from kstreams_assign.tasks.commit import CommitEnd, CommitStep, Outcome
from kstreams_assign.tasks.input_offsets import InputOffsets

if TYPE_CHECKING:
    from kstreams_assign.sim.broker import Logs
    from kstreams_assign.sim.process import Process

Take = Callable[[Outcome], None]

RECORDS_PER_S = 2_000
"""Of one input partition, at the most."""


@dataclass(slots=True)
class Running:
    """A running task: ``at`` is its input offset at ``since_ms``; a commit takes it into ``offsets``."""

    at: dict[TopicPartition, int]
    offsets: InputOffsets
    since_ms: int
    stopped: bool = False
    sent: dict[TopicPartition, int] = field(default_factory=dict)
    """How far the outputs were sent ahead of a commit."""

    def sent_to(self, partition: TopicPartition) -> int:
        """Return the input offset up to which the outputs were sent, with a commit or ahead of one."""
        return max(self.sent.get(partition, 0), self.offsets.positions[partition])


class Share(NamedTuple):
    """One task's part of a commit: ``records`` new in its changelog, and ``work``, the input offset that they reach.

    ``firsts``: where the input begins whose results these are. ``outputs``: those that were not sent ahead.
    """

    task: TaskId
    records: int
    work: int
    offsets: Mapping[TopicPartition, int]
    firsts: Mapping[TopicPartition, int]
    outputs: Sequence[Outputs]


class Commits:
    """The commit under way: at most one at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._scenario = process.world.scenario
        exactly_once = self._scenario.exactly_once
        self._engine = engine.Commits(exactly_once=exactly_once)
        self._number = 0
        """Of the commit: it counts also those that are abandoned."""
        self._began_ms = self._sends_ms = 0
        self._shares: Sequence[Share] = ()
        self._ends: Mapping[TaskId, int] = {}
        """Where the records of this commit end in their changelogs; empty: they are not appended."""
        self._producer = Producer(process) if exactly_once else None
        self._sent = Sent(process)
        self._settle()

    # --- what the loop asks for ---------------------------------------------------------------

    def begin(self, running: Mapping[TaskId, Running]) -> None:
        """Begin a commit of what these have processed. The loop's engine gets its end, at once or later."""
        now_ms = self._began_ms = self._world.timeline.now_ms
        self._number += 1
        self._ends = {}
        if self._producer is not None:
            self._producer.begin_commit()
        shares = [self._share(task, each, now_ms) for task, each in running.items()]
        self._shares = [share for share in shares if share is not None]
        if self._shares and self._producer is None:
            ahead_ms = self._world.rng.randint(1, self._scenario.commit_interval_ms)
            self._process.run.later(ahead_ms, self._send_ahead)
        self._handle(engine.CommitBegun(tuple(share.task for share in self._shares)))

    def abandon(self) -> None:
        self._number += 1
        self._handle(engine.CommitAbandoned())

    def discard_work(self) -> None:
        """Tasks go back to their last commit."""
        self._handle(engine.WorkDiscarded())

    def tell_times(self, running: Iterable[Running]) -> None:
        """Commit again what is committed, outside a transaction, as for the partition times of tasks that leave."""
        if offsets := {partition: at for each in running for partition, at in each.offsets.positions.items()}:
            self._process.membership.client.commit_once(offsets)

    def finish(self, end: CommitEnd, running: Mapping[TaskId, Running]) -> None:
        """Keep the offsets of a deferred commit for the next."""
        if end is CommitEnd.DEFERRED:
            offsets = self._offsets()
            for each in running.values():
                each.offsets.defer(offsets)

    def _share(self, task: TaskId, running: Running, now_ms: int) -> Share | None:
        processed(running, self._world.logs, now_ms)
        progress = running.offsets
        if running.at == progress.positions and not progress.deferred:
            return None
        firsts = {p: before for p, before in progress.positions.items() if running.at[p] != before}
        progress.handled = {partition: running.at[partition] for partition in firsts}
        outputs = [
            Outputs(task, partition, sent, at)
            for partition, at in progress.handled.items()
            if (sent := running.sent_to(partition)) < at
        ]
        records = sum(at - firsts[partition] for partition, at in progress.handled.items())
        return Share(task, records, max(running.at.values()), progress.take(), firsts, outputs)

    def _send_ahead(self) -> None:
        loop = self._process.loop
        if loop.tasks.may_send_ahead(self._lease_left_ms):
            for each in loop.running.values():
                processed(each, self._world.logs, self._world.timeline.now_ms)
            self._sent.send(loop.running)

    # --- what the engine decides ---------------------------------------------------------------

    def _handle(self, event: engine.Event) -> None:
        for effect in self._engine.handle(event):
            self._carry_out(effect)

    def _carry_out(self, effect: engine.Effect) -> None:
        match effect:
            case engine.TakeStep(step, number):
                self._take(step, number)
            case engine.AbortTransaction():
                self._in_transactions.abort(lambda _: self._settle())
            case engine.PrepareProducer():
                self._in_transactions.prepare(self._prepared)
            case engine.EndCommit(ended):
                self._settle()
                self._process.loop.handle(ended)
            case engine.DropRecords():
                self._sent.drop(self._process.loop.running)
            case engine.AnnounceAbort() | engine.AnnounceRestart():
                pass  # the transaction's own line tells of its end
            case engine.LeaveClient():
                raise AssertionError(effect)  # each call returns here
            case _:
                assert_never(effect)

    def _step_ended(self, number: int, outcome: Outcome) -> None:
        self._handle(engine.StepEnded(number, outcome))

    def _settle(self) -> None:
        """See that nothing of a predecessor, or of a failed commit, stays open; try until it is so."""
        if self._producer is not None and self._producer.unsettled:
            self._handle(engine.ProducerUnsettled())

    def _prepared(self, _outcome: Outcome) -> None:
        self._handle(engine.PreparationEnded())
        self._settle()

    @property
    def _in_transactions(self) -> Producer:
        assert self._producer is not None, "exactly once only"
        return self._producer

    # --- the steps ------------------------------------------------------------------------------

    def _take(self, step: CommitStep, number: int) -> None:
        """Take a step; its outcome comes at once or later."""
        out = partial(self._step_ended, number)
        match step:
            case CommitStep.LEASE:
                out(Outcome.OK if self._lease_left_ms > 0 else Outcome.EXPIRED)
            case CommitStep.PRODUCE:
                self._produce_outputs()
                out(Outcome.OK)
            case CommitStep.FLUSH:
                self._begin_flush(out)
            case CommitStep.STORE:
                if takes_ms := self._world.write_takes_ms(self._process.disk):
                    self._process.run.later(takes_ms, self._write, self._number, number)
                else:
                    self._write(self._number, number)
            case CommitStep.OFFSETS:
                self._commit_offsets(out)
            case CommitStep.BEGIN:
                self._in_transactions.begin(out)
            case CommitStep.TRANSACTION:
                self._in_transactions.commit(out)
            case CommitStep.ABORT | CommitStep.WITHDRAW | CommitStep.RESTART:
                self._in_transactions.abort(out)
            case _:
                assert_never(step)

    def _commit_offsets(self, out: Take) -> None:
        if self._producer is None:
            self._process.membership.client.commit(self._offsets(), out)
        else:
            self._producer.send_offsets(self._offsets(), out)

    def _produce_outputs(self) -> None:
        """At least once; in a transaction they go with the changelog records."""
        if self._producer is None:
            self._sent.begin_commit([each for share in self._shares for each in share.outputs])

    def _offsets(self) -> dict[TopicPartition, int]:
        unwritten = self._engine.unwritten
        shares = (share for share in self._shares if share.task not in unwritten)
        return {partition: at for share in shares for partition, at in share.offsets.items()}

    def _write(self, commit: int, number: int) -> None:
        if commit == self._number:
            unwritten = frozenset(share.task for share in self._shares if not self._write_stores(share))
            self._handle(engine.StepEnded(number, Outcome.OK, unwritten=unwritten))

    def _write_stores(self, share: Share) -> bool:
        """Write the results of this commit to the stores of a task."""
        if (stores := self._process.loop.stores.get(share.task)) is None:
            return True
        position = self._world.changelog_position(share.task, self._ends.get(share.task))
        try:
            stores.write({}, position)
        except StateError:
            self._world.watch.unwritten(self._process, share.task)
            return False
        self._world.watch.stored(self._process, share.task, sum(position.values()), share.work)
        return True

    @property
    def _lease_left_ms(self) -> int:
        return self._process.membership.client.lease_left_ms

    def _begin_flush(self, out: Take) -> None:
        """Draw when the changelog records leave. Until then the commit looks after the outputs on their way."""
        takes_ms = self._world.commit_takes_ms()
        self._sends_ms = self._world.timeline.now_ms + takes_ms
        if self._sent.commit_waits:
            self._flush(self._number, out)
        else:
            self._process.run.later(takes_ms, self._flush, self._number, out)

    def _flush(self, number: int, out: Take) -> None:
        """Send changelog records until they are acknowledged, the lease ends, or they have taken too long.

        Outputs come first. A worker looks at its lease all the time, so here it is looked at before any is sent again.
        """
        if number != self._number:
            return
        now_ms = self._world.timeline.now_ms
        if self._lease_left_ms <= 0:
            out(Outcome.EXPIRED)
        elif self._sent.failed or now_ms - self._began_ms >= self._delivery_limit_ms:
            out(Outcome.UNDELIVERED)
        elif self._sent.commit_waits:
            self._sent.then(partial(self._flush, number, out))
        elif now_ms < self._sends_ms:
            self._process.run.later(self._sends_ms - now_ms, self._flush, number, out)
        elif self._producer is None:
            self._send(number, out)
        else:
            self._send_in_transaction(self._producer, number, out)

    @property
    def _delivery_limit_ms(self) -> int:
        if self._producer is None:
            return delivery_limit_ms(self._scenario.write_lease_ms)
        return transaction_delivery_limit_ms(TIMEOUT_MS)

    def _send(self, number: int, out: Take) -> None:
        """Send changelog records at least once."""
        shares = self._shares

        def append() -> None:
            if number == self._number and not self._ends:
                self._ends = self._world.append(self._process, shares)

        send_under_lease(self._process, append, partial(out, Outcome.OK), partial(self._flush, number, out))

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


def processed(running: Running, logs: Logs, now_ms: int) -> None:
    """Bring ``running`` up to now."""
    if not running.stopped:
        most = (now_ms - running.since_ms) * RECORDS_PER_S // 1000
        firsts, grown = logs.firsts, logs.grown(now_ms)
        for partition, at in running.at.items():
            end = firsts.get(partition, 0) + grown
            running.at[partition] = min(at + most, end)
        running.since_ms = now_ms
