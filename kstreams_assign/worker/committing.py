"""Commits that do not hold up the work: one batch is on its way while the next records are processed.

``tasks.commit`` is the rule; here each step is taken without waiting, or with, where the caller has to be sure. The
records of a batch are on their way while its tasks read their writes from the buffer's second layer. While the
processing thread runs the user's function another thread takes the steps (``beside``), so a transaction does not grow
old behind a slow call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Protocol
from uuid import UUID

from kstreams_assign.adapters.confluent import RecordProducer, TransactionalProducer
from kstreams_assign.config import Config
from kstreams_assign.errors import (
    BrokerUnavailable,
    CommitDeferred,
    CommitRefused,
    DeliveryFailed,
    RecordRefused,
    StateError,
    TaskMigrated,
    TransactionAborted,
)
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.status.views import TaskTopic
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.commit import CommitStep, Outcome, next_step
from kstreams_assign.tasks.stamped import value_of
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import Work
from kstreams_assign.worker.meters import Durations, Totals, count_topics
from kstreams_assign.worker.sender import Sender

WAIT_S = 5.0
"""How long a commit that is awaited waits for each of its answers: closing must not hang on a broker."""


CALL_S = 10.0
"""How long a transaction's own calls may take; a transaction that is silent for longer is over."""

TELL_S = 1.0
"""How long a hand-over waits until its partition times are committed."""

LOOK_RECORDS = 100
HUNG_MS = int(CALL_S * 1000) + 2_000
"""Treat a client call that is older than this as hung."""

_NOT_DELIVERED = (DeliveryFailed, BrokerUnavailable, TaskMigrated)
_NO_TRANSACTION = (TransactionAborted, CommitDeferred, CommitRefused, BrokerUnavailable, TaskMigrated)


def record_producer(config: Config, process: UUID) -> RecordProducer:
    """The producer that the guarantee asks for. A process keeps its id, so a restart fences what it left behind.

    At least once, what a process that slept still holds has expired before another owns its tasks.
    """
    servers, group = config.bootstrap_servers, config.application_id
    if config.exactly_once:
        return TransactionalProducer(servers, config.client, group_id=group, transactional_id=f"{group}-{process}")
    return RecordProducer(servers, config.client, delivery_timeout_ms=config.session_timeout_ms * 2 // 3)


class OffsetCommits(Protocol):
    """The membership's part in a commit."""

    def commit(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float, metadata: Mapping[TopicPartition, str]
    ) -> None: ...

    def lease_left_s(self) -> float: ...

    def member(self) -> MemberId:
        """The membership of now. Raises ``CommitDeferred``, ``CommitRefused``."""
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of a commit. ``landed`` is called once its writes are in the store.

    ``timestamped`` are names of stores. ``sourced``: input partitions that are also a store's changelog; the store
    holds them up to the committed offset.
    """

    task: TaskId
    stores: TaskStores | None
    changelogs: Mapping[str, TopicPartition]
    timestamped: frozenset[str]
    work: Work
    landed: Callable[[], None]
    sourced: frozenset[TopicPartition] = frozenset()


class Committer:
    """At most one commit at a time.

    The processing thread uses it, and another thread while the processing thread runs the user's function. With
    a ``TransactionalProducer`` a commit is a transaction. Its calls wait for the broker, so a thread of their own makes
    them, one after another.
    """

    def __init__(self, producer: RecordProducer, commits: OffsetCommits, timeout_s: float, log: EventLog) -> None:
        self._producer = producer
        self._commits = commits
        self._timeout_s = timeout_s
        self._log = log
        self._sender = Sender("kstreams-commit")
        self._shares: Sequence[Share] = ()
        self._step: CommitStep | None = None
        self._acknowledged: Mapping[TopicPartition, int] = {}
        self._answer: Future[None] | None = None
        self._settling: Future[None] | None = None
        self._unwritten: set[TaskId] = set()
        self.trouble = ""
        self._ended: CommitStep | None = None
        self.done_total = self.aborted_total = self.failed_total = 0
        self.durations = Durations()
        self.records_produced: Totals[TaskTopic] = Totals()
        self._take: Mapping[CommitStep, Callable[[bool], Outcome | None]] = {
            CommitStep.LEASE: self._check_lease,
            CommitStep.PRODUCE: self._produce,
            CommitStep.FLUSH: self._flush,
            CommitStep.STORE: self._store,
            CommitStep.OFFSETS: self._commit_offsets,
        }
        self._transactions = producer if isinstance(producer, TransactionalProducer) else None
        if self._transactions is not None:
            self._take |= self._in_transactions(self._transactions)

    @property
    def busy(self) -> bool:
        return self._step is not None

    def begin(self, shares: Sequence[Share]) -> None:
        """Start a commit; ``advance`` until it has ended."""
        self._shares, self._step = shares, CommitStep.LEASE
        self._unwritten, self._ended = set(), None
        self.durations.start()

    def advance(self, *, wait: bool = False) -> CommitStep | None:
        """Go as far as possible, or to the end with ``wait``. How it ended, or None while it is on its way."""
        if self._step is None:
            return CommitStep.DONE
        if not self._take_steps(self._take.keys(), wait):
            return None
        self._ended, self._step = self._step, None
        self.done_total += self._ended is CommitStep.DONE
        self._measure(self._ended)
        if self._ended is CommitStep.FAILED and self._transactions is None:
            self._producer.abandon()
        return self._ended

    def _measure(self, end: CommitStep) -> None:
        self.durations.stop()
        if end not in (CommitStep.DONE, CommitStep.DEFERRED):
            self.failed_total += 1
            return
        for share in self._shares:
            for topic, count in count_topics(share.work.taken.emitted).items():
                self.records_produced.add((share.task, topic), count)

    def advance_beside_a_call(self) -> None:
        """Go as far as possible while the processing thread runs the user's function.

        Neither touches a store nor ends the commit.
        """
        self._take_steps(self._take.keys() - {CommitStep.STORE}, wait=False)

    def _take_steps(self, steps: Collection[CommitStep], wait: bool) -> bool:
        """Take the next steps, as long as they are among these; return False if a step has to wait."""
        while self._step is not None and self._step in steps:
            outcome = self._take[self._step](wait)
            if outcome is None:
                return False
            self._step = next_step(self._step, outcome, exactly_once=self._transactions is not None)
        return True

    def settle(self) -> None:
        """Between two commits: see that nothing of a failed one stays open, as who restores its tasks waits for that.

        Tried until it is so. Raises ``BrokerError`` for what no other attempt mends.
        """
        producer = self._transactions
        if producer is None or self.busy or producer.settled:
            return
        if self._settling is not None:
            if not self._settling.done():
                self._look_at_hung(producer)
                return
            cause, self._settling = self._settling.exception(), None
            if cause is not None and not isinstance(cause, _NO_TRANSACTION):
                raise cause
        self._settling = self._sender.submit(lambda: producer.prepare(CALL_S))

    def _look_at_hung(self, producer: TransactionalProducer) -> bool:
        """Whether the call on its way hangs; it is then left behind, and another client takes over."""
        if self._sender.under_way_s() * 1000 < HUNG_MS:
            return False
        self.trouble = f"the Kafka client has not come back from a call for {HUNG_MS // 1000} s; another one takes over"
        self._log.emit("client_hung", warnings=[self.trouble])
        self._sender.leave()
        producer.leave()
        self._answer = self._settling = None
        return True

    def offsets(self) -> Mapping[TopicPartition, int]:
        """The input offsets of the last commit begun, but for tasks whose store could not be written."""
        return {
            p: offset
            for share in self._shares
            if share.task not in self._unwritten
            for p, offset in share.work.offsets.items()
        }

    def _metadata(self) -> Mapping[TopicPartition, str]:
        return {p: text for share in self._shares for p, text in share.work.metadata.items()}

    def tasks(self) -> list[TaskId]:
        """Whose shares the last commit begun has."""
        return [share.task for share in self._shares]

    def failed(self) -> list[TaskId]:
        """The tasks of the last commit that have to go on from the one before; ``trouble`` says why."""
        return [task for task in self.tasks() if self._ended is CommitStep.FAILED or task in self._unwritten]

    def forget(self) -> None:
        """There was nothing to commit: the outcome of the commit before is reported already."""
        self._shares, self._unwritten, self._ended = (), set(), None

    def abandon(self) -> None:
        """Forget what is on its way: the tasks are another's now."""
        self._step, self._answer = None, None
        self.durations.drop()
        self._producer.abandon()
        transactions = self._transactions
        if transactions is not None:
            self._sender.submit(lambda: transactions.abort(CALL_S))

    def tell_times(self, offsets: Mapping[TopicPartition, int], metadata: Mapping[TopicPartition, str]) -> None:
        """Commit again what is committed already, outside a transaction: its metadata then ends without a zero byte.

        This is for tasks that leave: they commit nothing later in this generation, so it may arrive late. Wait briefly.
        """
        answer = self._sender.submit(lambda: self._commits.commit(offsets, TELL_S, metadata))
        try:
            answer.result(TELL_S)
        except (CommitDeferred, CommitRefused, BrokerUnavailable, FutureTimeoutError) as cause:
            self._log.emit("commit_deferred", reason=f"partition times: {cause}")

    def close(self) -> None:
        """End the thread; a transaction's last call is waited for, as it should not outlive the producer."""
        self._sender.close(CALL_S if self._transactions is not None else 0)

    # --- a transaction's steps -----------------------------------------------------------

    def _in_transactions(
        self, producer: TransactionalProducer
    ) -> Mapping[CommitStep, Callable[[bool], Outcome | None]]:
        self.settle()  # what a predecessor left open holds up who restores its tasks

        def send_offsets() -> None:
            producer.send_offsets(self.offsets(), self._commits.member(), CALL_S, self._metadata())

        return {
            CommitStep.BEGIN: lambda wait: self._call(lambda: producer.begin(CALL_S), wait),
            CommitStep.OFFSETS: lambda wait: self._call(send_offsets, wait),
            CommitStep.TRANSACTION: lambda wait: self._call(lambda: producer.commit(CALL_S), wait),
            CommitStep.ABORT: lambda wait: self._abort(producer, wait),
            CommitStep.WITHDRAW: lambda wait: self._abort(producer, wait),
        }

    def _call(self, work: Callable[[], None], wait: bool) -> Outcome | None:
        if self._answer is None:
            self._answer = self._sender.submit(work)
        if not wait and not self._answer.done():
            hung = self._transactions is not None and self._look_at_hung(self._transactions)
            return Outcome.UNDELIVERED if hung else None
        answer, self._answer = self._answer, None
        try:
            answer.result(WAIT_S if wait else 0)
        except (*_NO_TRANSACTION, FutureTimeoutError) as cause:
            self.trouble = str(cause) or f"no answer in {WAIT_S:.0f} s"
            return Outcome.REFUSED if isinstance(cause, CommitRefused | TaskMigrated) else Outcome.UNDELIVERED
        return Outcome.OK

    def _abort(self, producer: TransactionalProducer, wait: bool) -> Outcome | None:
        if self._answer is None:
            self.aborted_total += 1
            self._log.emit("transaction_aborted", reason=self.trouble, tasks=[*map(str, self.tasks())])
        return None if self._call(lambda: producer.abort(CALL_S), wait) is None else Outcome.OK

    # --- the steps -------------------------------------------------------------------------

    def _check_lease(self, _wait: bool) -> Outcome:
        try:
            self._commits.member()
        except CommitDeferred:
            pass  # the broker keeps the member while it rebalances
        except CommitRefused as cause:
            self.trouble = str(cause)
            return Outcome.EXPIRED
        return Outcome.OK if self._commits.lease_left_s() > 0 else Outcome.EXPIRED

    def _produce(self, _wait: bool) -> Outcome:
        """Looks at the lease on the way, too: this process may be stopped between any two records."""
        try:
            for rows, track in self._rows():
                while some := list(islice(rows, LOOK_RECORDS)):
                    if self._commits.lease_left_s() <= 0:
                        return self._out_of_lease()
                    self._producer.produce_all(some, track=track)
        except _NOT_DELIVERED as cause:
            return self._undelivered(cause)
        return Outcome.OK

    def _rows(self) -> Iterator[tuple[Iterator[Row], bool]]:
        """All records in order, in runs, and whether the offsets of a run count."""
        for share in self._shares:
            for store in share.work.taken.writes:
                if store in share.changelogs:
                    yield _changelog_rows(share, store), True
            yield iter(share.work.taken.emitted), False

    def _out_of_lease(self) -> Outcome:
        self.trouble = "the session may be over, and records were still on their way"
        self._producer.abandon()
        return Outcome.EXPIRED

    def _flush(self, wait: bool) -> Outcome | None:
        left_s = self._commits.lease_left_s()
        if left_s <= 0:
            return self._out_of_lease()
        try:
            acknowledged = self._producer.flush(min(WAIT_S, left_s)) if wait else self._producer.acknowledged()
        except _NOT_DELIVERED as cause:
            return self._undelivered(cause)
        if acknowledged is None:
            return None
        self._acknowledged = acknowledged
        return Outcome.OK

    def _undelivered(self, cause: Exception) -> Outcome:
        """What may pass. Raises ``RecordRefused`` for what never will, naming the task.

        A changelog that is gone stops its own task: that finds it missing when it is restored, and waits for it.
        """
        if isinstance(cause, RecordRefused) and not (cause.absent and self._owners(cause)):
            text = f"task {self._writer_of(cause)}: {cause}"
            raise RecordRefused(text, cause.topic, cause.partition, cause.key, absent=cause.absent) from cause
        self.trouble = str(cause)
        self._log.emit("delivery_failed", reason=str(cause), warnings=[str(cause)])
        return Outcome.REFUSED if isinstance(cause, TaskMigrated) else Outcome.UNDELIVERED

    def _writer_of(self, refused: RecordRefused) -> str:
        """Whose record it was: a changelog says it, an output's topic and key may fit several."""
        owners = self._owners(refused)
        owners += [
            s.task for s in self._shares if any(row[:2] == (refused.topic, refused.key) for row in s.work.taken.emitted)
        ]
        return " or ".join(map(str, dict.fromkeys(owners)))

    def _owners(self, refused: RecordRefused) -> list[TaskId]:
        at = TopicPartition(refused.topic, refused.partition)
        return [share.task for share in self._shares if at in share.changelogs.values()]

    def _store(self, _wait: bool) -> Outcome:
        for share in self._shares:
            try:
                self._write(share)
            except StateError as cause:  # this task alone goes on from its last commit
                self._unwritten.add(share.task)
                self.trouble = str(cause)
                self._log.emit("store_failed", task=str(share.task), reason=str(cause))
        return Outcome.OK

    def _write(self, share: Share) -> None:
        writes = share.work.taken.writes
        if share.stores is not None and (writes or share.sourced):
            mine = set(share.changelogs.values())
            offsets = {p: offset for p, offset in self._acknowledged.items() if p in mine}
            offsets |= {p: offset for p, offset in share.work.offsets.items() if p in share.sourced}
            share.stores.write({store: entries.items() for store, entries in writes.items()}, offsets)
        share.landed()

    def _commit_offsets(self, wait: bool) -> Outcome | None:
        if self._answer is None:
            offsets, metadata = self.offsets(), self._metadata()
            self._answer = self._sender.submit(lambda: self._commits.commit(offsets, self._timeout_s, metadata))
        if not wait and not self._answer.done():
            return None
        answer, self._answer = self._answer, None
        try:
            answer.result(WAIT_S if wait else 0)
        except (CommitDeferred, BrokerUnavailable, FutureTimeoutError) as cause:
            self._log.emit("commit_deferred", reason=str(cause) or f"no answer in {WAIT_S:.0f} s")
            return Outcome.DEFERRED
        except CommitRefused as cause:
            self._log.emit("commit_refused", reason=str(cause))
            return Outcome.REFUSED
        return Outcome.OK


def _changelog_rows(share: Share, store: str) -> Iterator[Row]:
    """The time of a write is its record's, so a timestamped store's changelog holds the bare value."""
    topic, partition = share.changelogs[store]
    entries, times = share.work.taken.writes[store], share.work.taken.times[store]
    values: Iterable[bytes | None] = entries.values()
    if store in share.timestamped:
        values = (None if stored is None else value_of(stored) for stored in values)
    return zip(  # C calls only, for each record of a commit
        *(repeat(topic), entries, values, repeat(()), repeat(partition), map(times.__getitem__, entries)), strict=False
    )
