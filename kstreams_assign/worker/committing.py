"""Commits that do not hold up the work: one batch is on its way while the next records are processed.

``engine.commits`` decides; here each step is taken without waiting, or with, where the caller has to be sure. The
records of a batch are on their way while its tasks read their writes from the buffer's second layer. While the
processing thread runs the user's function another thread takes the steps (``beside``), so a transaction does not grow
old behind a slow call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from itertools import islice
from typing import NamedTuple, Protocol, assert_never
from uuid import UUID

from kstreams_assign.adapters.confluent import RecordProducer, TransactionalProducer
from kstreams_assign.client_settings import delivery_limit_ms
from kstreams_assign.config import Config
from kstreams_assign.engine import commits as engine
from kstreams_assign.engine.task_events import CommitEnded
from kstreams_assign.errors import (
    BrokerUnavailable,
    CommitDeferred,
    CommitRefused,
    DeliveryFailed,
    PartitionsAbsent,
    RecordRefused,
    StateError,
    TaskMigrated,
    TransactionAborted,
)
from kstreams_assign.events import (
    ClientHungEvent,
    CommitDeferredEvent,
    CommitRefusedEvent,
    DeliveryFailedEvent,
    StoreFailedEvent,
    TransactionAbortedEvent,
    TransactionRestartedEvent,
)
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.status.views import TaskTopic
from kstreams_assign.tasks.commit import CommitEnd, CommitStep, Outcome
from kstreams_assign.worker.absent_inputs import AbsentInputs
from kstreams_assign.worker.commit_membership import (
    UNNAMED_MS,
    CommitMembership,
    GenerationEnded,
    Members,
)
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.meters import Durations, Totals, count_topics
from kstreams_assign.worker.record_outputs import RecordOutputs, TransactionalOutputs
from kstreams_assign.worker.refusals import Refusals
from kstreams_assign.worker.sender import Calls, Sender
from kstreams_assign.worker.shares import Share, last_rows, rows_in_order
from kstreams_assign.worker.task_workspace import TaskWorkspace

WAIT_S = 5.0
"""How long a commit that is awaited waits for each of its answers: closing must not hang on a broker."""

CALL_S = engine.CALL_MS / 1000

TELL_S = 1.0
"""How long a hand-over waits until its partition times are committed."""

LOOK_RECORDS = 100

_NOT_DELIVERED = (DeliveryFailed, BrokerUnavailable, TaskMigrated)
_NO_TRANSACTION = (TransactionAborted, CommitDeferred, CommitRefused, BrokerUnavailable, TaskMigrated)


def record_producer(config: Config, process: UUID) -> RecordProducer:
    """The producer that the guarantee asks for. A process keeps its id, so a restart fences what it left behind.

    At least once, what a process that slept still holds has expired before another owns its tasks.
    """
    servers, group = config.bootstrap_servers, config.application_id
    if config.exactly_once:
        return TransactionalProducer(servers, config.client, group_id=group, transactional_id=f"{group}-{process}")
    return RecordProducer(servers, config.client, delivery_timeout_ms=delivery_limit_ms(config.write_lease_ms))


class OffsetCommits(Members, Protocol):
    """The membership's part in a commit."""

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str],
        only_as: MemberId | None = None,
    ) -> None:
        """Commit; ``only_as``: under no other membership than this.

        Raises ``PartitionsAbsent`` if the brokers do not know partitions; the offsets of all others are committed then.
        """
        ...

    def lease_left_s(self) -> float: ...


class _Result(NamedTuple):
    """What a step came to, as ``engine.StepEnded`` reports it."""

    outcome: Outcome
    reason: str = ""
    unwritten: frozenset[TaskId] = frozenset()


_OK = _Result(Outcome.OK)


class Committer:
    """At most one commit at a time.

    The processing thread uses it, and another thread while the processing thread runs the user's function. With
    ``TransactionalOutputs`` a commit is a transaction. Its calls wait for the broker, so ``calls`` makes them, one
    after another: by default a thread of their own.
    """

    def __init__(
        self,
        producer: RecordOutputs,
        commits: OffsetCommits,
        timeout_s: float,
        log: EventLog,
        calls: Calls | None = None,
        refusals: Refusals | None = None,
        absent: AbsentInputs | None = None,
    ) -> None:
        self._producer = producer
        self._transactions = producer if isinstance(producer, TransactionalOutputs) else None
        self._commits = commits
        self._timeout_s = timeout_s
        self._log = log
        self._engine = engine.Commits(exactly_once=self._transactions is not None)
        self._membership = CommitMembership(commits, commits.losses)
        self._sender = Sender("kstreams-commit") if calls is None else calls
        self._refusals = Refusals() if refusals is None else refusals
        self._absent = AbsentInputs() if absent is None else absent
        self._left_out: frozenset[TopicPartition] = frozenset()
        """Partitions whose offsets the last commit begun has dropped."""
        self._shares: Sequence[Share] = ()
        self._order: engine.TakeStep | None = None
        self._ended: CommitEnded | None = None
        self._acknowledged: Mapping[TopicPartition, int] = {}
        self._last_wait = False
        """Changelog records that follow everything else have not been sent."""
        self._answer: Future[None] | None = None
        self._preparation: Future[None] | None = None
        self._sent_ahead: set[TaskWorkspace] = set()
        """Those whose next commit has not begun."""
        self.done_total = self.aborted_total = self.failed_total = 0
        self.durations = Durations()
        self.records_produced: Totals[TaskTopic] = Totals()
        self.dead_letters: Totals[TaskId] = Totals()
        self.timers_fired: Totals[TaskId] = Totals()
        self.entries_expired: Totals[TaskId] = Totals()
        self.settle()  # what a predecessor left open holds up who restores its tasks

    # --- what the processing loop asks for -------------------------------------------------

    @property
    def membership_lost(self) -> bool:
        """Whether the membership of the tasks was lost. Another may have begun, with a lease that is not theirs."""
        return self._membership.is_lost

    def begin_membership(self, losses: int) -> None:
        """All tasks are dropped: those that come are of the membership after so many losses."""
        self._membership = CommitMembership(self._commits, losses)

    def begin(self, shares: Sequence[Share]) -> None:
        """Start a commit of these, which may be none; ``advance`` until it has ended.

        They have taken what they sent ahead.
        """
        self._shares = shares
        self._acknowledged, self._left_out = {}, frozenset()
        self._last_wait = self._transactions is None and any(share.work.taken.last for share in shares)
        self._membership.begin()
        self._sent_ahead.clear()
        self._producer.begin_commit()
        if shares:
            self.durations.start()
        self._handle(engine.CommitBegun(tuple(share.task for share in shares)))

    def send_ahead(self, workspace: TaskWorkspace) -> None:
        """Send what a task has emitted before its commit begins; what cannot be sent now goes with that."""
        if unsent := workspace.unsent():
            workspace.sent_ahead(self._producer.send_ahead(unsent))
            self._sent_ahead.add(workspace)

    def advance(self, *, wait: bool = False) -> CommitEnded | None:
        """Go as far as possible, or to the end with ``wait``. How it ended, or None while none has."""
        self._take_steps(wait=wait)
        ended, self._ended = self._ended, None
        return ended

    def advance_beside_a_call(self) -> None:
        """Go as far as possible without touching a store, while the processing thread runs the user's function."""
        self._take_steps(stores=False)

    def settle(self) -> None:
        """Between two commits: see that nothing of a failed one stays open, as who restores its tasks waits for that.

        Tried until it is so. Raises ``BrokerError`` for what no other attempt mends.
        """
        producer = self._transactions
        if producer is None or self._engine.busy or producer.settled:
            return
        if (preparation := self._preparation) is not None:
            if not preparation.done():
                self._look_at_call()
                return
            self._preparation = None
            self._handle(engine.PreparationEnded())
            cause = preparation.exception()
            if cause is not None and not isinstance(cause, _NO_TRANSACTION):
                raise cause
        self._handle(engine.ProducerUnsettled())

    def offsets(self) -> Mapping[TopicPartition, int]:
        """The input offsets of the last commit begun.

        Those of tasks whose store could not be written are left out, and those that were dropped.
        """
        unwritten, left_out = self._engine.unwritten, self._left_out
        shares = (share for share in self._shares if share.task not in unwritten)
        return {p: offset for share in shares for p, offset in share.work.offsets.items() if p not in left_out}

    def _metadata(self) -> Mapping[TopicPartition, str]:
        return {p: text for share in self._shares for p, text in share.work.metadata.items()}

    def abandon(self) -> None:
        """Forget what is on its way: the tasks are another's now."""
        self._order = self._answer = self._ended = None
        self.durations.drop()
        self._handle(engine.CommitAbandoned())

    def discard_work(self) -> None:
        """Tasks go back to their last commit: nothing that they sent ahead of the next one may arrive later."""
        if self._sent_ahead:
            self._handle(engine.WorkDiscarded())

    def tell_times(self, offsets: Mapping[TopicPartition, int], metadata: Mapping[TopicPartition, str]) -> None:
        """Commit again what is committed already, outside a transaction: its metadata then ends without a zero byte.

        This is for tasks that leave: they commit nothing later in this generation, so it may arrive late. Wait briefly.
        In the next generation they may be another member's.
        """
        try:
            member = self._membership.member()
            answer = self._sender.submit(lambda: self._commits.commit(offsets, TELL_S, metadata, member))
            answer.result(TELL_S)
        except (CommitDeferred, CommitRefused, BrokerUnavailable, FutureTimeoutError) as cause:
            self._log.emit(CommitDeferredEvent(reason=f"partition times: {cause}"))

    def close(self) -> None:
        """End the thread; a transaction's last call is waited for, as it should not outlive the producer."""
        self._sender.close(CALL_S if self._transactions is not None else 0)

    # --- what the engine decides -----------------------------------------------------------

    def _handle(self, event: engine.Event) -> None:
        for effect in self._engine.handle(event):
            self._carry_out(effect)

    def _carry_out(self, effect: engine.Effect) -> None:  # noqa: C901  # a case for each effect
        match effect:
            case engine.TakeStep():
                self._order = effect
            case engine.DropRecords():
                self._producer.abandon()
                for workspace in self._sent_ahead:
                    workspace.send_again()
                self._sent_ahead.clear()
            case engine.AbortTransaction():
                producer = self._in_transactions
                self._sender.submit(lambda: producer.abort(CALL_S))
            case engine.PrepareProducer():
                producer = self._in_transactions
                self._preparation = self._sender.submit(lambda: producer.prepare(CALL_S))
            case engine.LeaveClient(reason):
                self._log.emit(ClientHungEvent(warnings=(reason,)))
                self._sender.leave()
                self._in_transactions.leave()
                self._answer = self._preparation = None
            case engine.AnnounceAbort(tasks, reason):
                self.aborted_total += 1
                self._log.emit(TransactionAbortedEvent(reason=reason, tasks=tuple(map(str, tasks))))
            case engine.AnnounceRestart(tasks, reason):
                self._log.emit(TransactionRestartedEvent(reason=reason, tasks=tuple(map(str, tasks))))
            case engine.EndCommit(ended):
                self._order, self._ended = None, ended
                if self._shares:
                    self._measure(ended.end)
            case _:
                assert_never(effect)

    @property
    def _in_transactions(self) -> TransactionalOutputs:
        assert self._transactions is not None, "exactly once only"
        return self._transactions

    def _measure(self, end: CommitEnd) -> None:
        self.durations.stop()
        if end not in (CommitEnd.DONE, CommitEnd.DEFERRED):
            self.failed_total += 1
            return
        self.done_total += end is CommitEnd.DONE
        for share in self._shares:
            for topic, count in count_topics(share.work.taken.emitted).items():
                self.records_produced.add((share.task, topic), count)
            if share.letters:
                self.dead_letters.add(share.task, share.letters)
            if share.work.fired:
                self.timers_fired.add(share.task, share.work.fired)
            if share.work.expired:
                self.entries_expired.add(share.task, share.work.expired)

    # --- the steps -------------------------------------------------------------------------

    def _take_steps(self, *, wait: bool = False, stores: bool = True) -> None:
        while (order := self._order) is not None and (stores or order.step is not CommitStep.STORE):
            result = self._take(order.step, wait)
            if result is None:
                return
            self._handle(engine.StepEnded(order.number, *result))

    def _take(self, step: CommitStep, wait: bool) -> _Result | None:  # noqa: PLR0911 - a case for each step
        """Take a step; None: its outcome is not known yet."""
        match step:
            case CommitStep.LEASE:
                return self._check_lease()
            case CommitStep.PRODUCE:
                return self._produce()
            case CommitStep.FLUSH:
                return self._flush(wait)
            case CommitStep.STORE:
                return self._store()
            case CommitStep.OFFSETS:
                return self._commit_offsets(wait) if self._transactions is None else self._send_offsets(wait)
            case CommitStep.BEGIN:
                return self._call(lambda: self._in_transactions.begin(CALL_S), wait)
            case CommitStep.TRANSACTION:
                return self._call(lambda: self._in_transactions.commit(CALL_S), wait)
            case CommitStep.ABORT | CommitStep.WITHDRAW | CommitStep.RESTART:
                return self._call(lambda: self._in_transactions.abort(CALL_S), wait)
            case _:
                assert_never(step)

    def _send_offsets(self, wait: bool) -> _Result | None:
        """After a stale generation the next one is waited for: the answer that names it is on its way."""
        producer, membership = self._in_transactions, self._membership
        if self._answer is None and (unnamed_ms := membership.unnamed_ms) is not None:
            return _UNNAMED if wait or unnamed_ms > UNNAMED_MS else None

        def send() -> None:
            member = membership.member()
            try:
                producer.send_offsets(self.offsets(), member, CALL_S, self._metadata())
            except CommitRefused as cause:
                membership.refused(member, cause)
                raise

        return self._call(send, wait)

    def _call(self, work: Callable[[], None], wait: bool) -> _Result | None:
        """Make one of a transaction's calls."""
        if self._answer is None:
            self._answer = self._sender.submit(work)
        if not wait and not self._answer.done():
            self._look_at_call()
            return None
        answer, self._answer = self._answer, None
        try:
            answer.result(WAIT_S if wait else 0)
        except GenerationEnded as cause:
            return _Result(Outcome.STALE, str(cause))
        except (*_NO_TRANSACTION, FutureTimeoutError) as cause:
            refused = isinstance(cause, CommitRefused | TaskMigrated)
            return _Result(Outcome.REFUSED if refused else Outcome.UNDELIVERED, _reason(cause))
        return _OK

    def _look_at_call(self) -> None:
        self._handle(engine.CallUnderWay(self._sender.under_way_s() * 1000))

    @property
    def _lease_left_s(self) -> float:
        """How long records of these tasks may leave: not under the lease of another membership than theirs."""
        left_s = self._commits.lease_left_s()
        return 0.0 if self.membership_lost else left_s

    def _check_lease(self) -> _Result:
        try:
            self._commits.member()
        except CommitDeferred:
            pass  # the broker keeps the member while it rebalances
        except CommitRefused as cause:
            return _Result(Outcome.EXPIRED, str(cause))
        return _OK if self._lease_left_s > 0 else _Result(Outcome.EXPIRED, "the membership may be over")

    def _produce(self) -> _Result:
        """Looks at the lease on the way, too: this process may be stopped between any two records."""
        try:
            for rows, track in rows_in_order(self._shares, last_follow=self._transactions is None):
                while some := list(islice(rows, LOOK_RECORDS)):
                    if self._lease_left_s <= 0:
                        return _OUT_OF_LEASE
                    self._producer.produce_all(some, track=track)
        except _NOT_DELIVERED as cause:
            return self._undelivered(cause)
        return _OK

    def _flush(self, wait: bool) -> _Result | None:
        left_s = self._lease_left_s
        if left_s <= 0:
            return _OUT_OF_LEASE
        try:
            acknowledged = self._producer.flush(min(WAIT_S, left_s)) if wait else self._producer.acknowledged()
            if acknowledged is None:
                return None
            self._acknowledged = {**self._acknowledged, **acknowledged}
            if not self._last_wait:
                return _OK
            self._last_wait = False
            for rows in last_rows(self._shares):
                self._producer.produce_all(rows, track=True)
        except _NOT_DELIVERED as cause:
            return self._undelivered(cause)
        return self._flush(wait)

    def _undelivered(self, cause: Exception) -> _Result:
        """What may pass. Raises ``RecordRefused``, with its task, for what never will."""
        if isinstance(cause, RecordRefused):
            self._refusals.check(self._shares, cause)
        self._log.emit(DeliveryFailedEvent(reason=str(cause), warnings=(str(cause),)))
        return _Result(Outcome.REFUSED if isinstance(cause, TaskMigrated) else Outcome.UNDELIVERED, str(cause))

    def _store(self) -> _Result:
        """A store that cannot be written is its own task's trouble alone."""
        reasons: dict[TaskId, str] = {}
        for share in self._shares:
            try:
                share.write(self._acknowledged)
            except StateError as cause:
                reasons[share.task] = str(cause)
                self._log.emit(StoreFailedEvent(task=str(share.task), reason=str(cause)))
        return _Result(Outcome.OK, next(reversed(reasons.values()), ""), frozenset(reasons))

    def _commit_offsets(self, wait: bool) -> _Result | None:
        if self._answer is None:
            offsets, metadata, membership = self.offsets(), self._metadata(), self._membership

            def commit() -> None:
                membership.check_kept()
                self._commits.commit(offsets, self._timeout_s, metadata)

            self._answer = self._sender.submit(commit)
        if not wait and not self._answer.done():
            return None
        answer, self._answer = self._answer, None
        try:
            answer.result(WAIT_S if wait else 0)
        except PartitionsAbsent as cause:
            return self._leave_out(cause)
        except (CommitDeferred, BrokerUnavailable, FutureTimeoutError) as cause:
            return self._defer(cause)
        except CommitRefused as cause:
            self._log.emit(CommitRefusedEvent(reason=str(cause)))
            return _Result(Outcome.REFUSED, str(cause))
        self._absent.answered(self.offsets())
        return _OK

    def _defer(self, cause: BaseException) -> _Result:
        self._log.emit(CommitDeferredEvent(reason=_reason(cause)))
        return _Result(Outcome.DEFERRED)

    def _leave_out(self, cause: PartitionsAbsent) -> _Result:
        """The commit is done for all other partitions. All offsets go with the next one while these are kept."""
        absent = frozenset(cause.partitions)
        if self._absent.answered(self.offsets(), absent):
            return self._defer(cause)
        self._left_out = absent
        if (event := self._absent.drop(absent)) is not None:
            self._log.emit(event)
        return _OK


_UNNAMED = _Result(Outcome.UNDELIVERED, "the group has a new generation, and does not name it")
_OUT_OF_LEASE = _Result(Outcome.EXPIRED, "the membership may be over, and records were still on their way")


def _reason(cause: BaseException) -> str:
    return str(cause) or f"no answer in {WAIT_S:.0f} s"
