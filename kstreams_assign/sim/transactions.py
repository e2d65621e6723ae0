"""Kafka's transaction coordinator and the partitions' part in transactions, by producer (KIP-98, KIP-447).

Records of a transaction are in the log at once, and readable up to the first one that is not over. Deciding takes no
time; each partition learns of the decision by a marker, later and by itself, and a marker is an offset, too. Not
simulated: several transaction coordinators, a coordinator that moves, and the epochs of KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kstreams_assign.client_settings import transaction_timeout_ms
from kstreams_assign.sim.coordinator import Error
from kstreams_assign.sim.log_lines import names

if TYPE_CHECKING:
    from uuid import UUID

    from kstreams_assign.model import TaskId, TopicPartition
    from kstreams_assign.sim.committing import Share
    from kstreams_assign.sim.process import Process
    from kstreams_assign.sim.world import World

TIMEOUT_MS = transaction_timeout_ms({})
"""How long a transaction may be open."""


class Verdict(Enum):
    """What a request came to."""

    DONE = "done"
    LATER = "later"  # retriable: markers of the last transaction are on their way, or no coordinator answers
    FENCED = "fenced"  # a newer epoch of this producer exists
    STALE = "stale"  # the group has gone on without this member
    NOTHING_OPEN = "nothing open"  # there is no transaction that could end so


class Answer(NamedTuple):
    """The answer to a request. ``epoch``: from ``init``. ``ends``: from ``append``, where each task's records end."""

    verdict: Verdict
    epoch: int = -1
    ends: Mapping[TaskId, int] = {}


class Member(NamedTuple):
    """The membership under which offsets are committed."""

    member_id: str
    instance_id: str | None
    generation: int


@dataclass(eq=False, slots=True)
class Transaction:
    """``begins``, ``ends``: of its records in each changelog."""

    process: Process
    shares: Sequence[Share] = ()
    begins: dict[TaskId, int] = field(default_factory=dict)
    ends: dict[TaskId, int] = field(default_factory=dict)
    member_id: str = ""
    offsets: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Producer:
    """A transactional id. ``ending``: decided, its markers are on their way; ``ended``: how the last was decided."""

    epoch: int = 0
    open: Transaction | None = None
    ending: Transaction | None = None
    ended: bool | None = None


class Transactions:
    """All producers, by process id: a process that comes back on its disk has its old transactional id."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._logs = world.logs
        self._producers: dict[UUID, _Producer] = {}
        self._unended: dict[TaskId, list[Transaction]] = {task: [] for task in world.logs.ends}
        self._pending: list[Transaction] = []
        """Transactions with offsets whose markers are not written."""

    # --- requests ----------------------------------------------------------------------------

    def init(self, producer_id: UUID) -> Answer:
        """Handle InitProducerId: fence the predecessor and abort what it left open."""
        producer = self._producers.setdefault(producer_id, _Producer())
        if producer.open is not None:
            producer.epoch += 1
            self._decide(producer, committed=False)
        if producer.ending is not None:
            return Answer(Verdict.LATER)
        producer.epoch += 1
        producer.ended = None
        return Answer(Verdict.DONE, producer.epoch)

    def append(self, process: Process, epoch: int, shares: Sequence[Share]) -> Answer:
        """Take the records of a transaction, which begins with them."""
        producer = self._producers[process.process_id]
        if (refused := self._refused(producer, epoch)) is not None:
            return refused
        transaction = self._begun(producer, process)
        if transaction.shares:  # sent again, as the answer was lost
            return Answer(Verdict.DONE, ends=dict(transaction.ends))
        transaction.shares = shares
        for share in shares:
            if share.task in self._logs.ends:
                transaction.begins[share.task] = self._logs.ends[share.task]
                self._logs.grow(share.task, share.records)
                transaction.ends[share.task] = self._logs.ends[share.task]
                self._unended[share.task].append(transaction)
                self._logs.readable_to(share.task, self._readable(share.task))
        return Answer(Verdict.DONE, ends=dict(transaction.ends))

    def add_offsets(
        self, process: Process, epoch: int, member: Member, offsets: Mapping[TopicPartition, int]
    ) -> Answer:
        """Handle TxnOffsetCommit. The group refuses a stale generation, and takes offsets while it rebalances."""
        producer = self._producers[process.process_id]
        if (refused := self._refused(producer, epoch)) is not None:
            return refused
        error = self._world.group.transactional_commit(*member, offsets)
        if error is not Error.NONE:
            return Answer(Verdict.LATER if error is Error.NOT_COORDINATOR else Verdict.STALE)
        transaction = self._begun(producer, process)
        transaction.member_id = member.member_id
        transaction.offsets.update(offsets)
        if transaction not in self._pending:
            self._pending.append(transaction)
        return Answer(Verdict.DONE)

    def end(self, process: Process, epoch: int, *, committed: bool) -> Answer:
        """Handle EndTxn. Asked again after its answer was lost, it answers the same."""
        producer = self._producers[process.process_id]
        if epoch != producer.epoch:
            return Answer(Verdict.FENCED)
        if producer.open is not None:
            self._decide(producer, committed=committed)
        elif producer.ended is not committed:
            return Answer(Verdict.NOTHING_OPEN)
        return Answer(Verdict.DONE)

    def are_stable(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether no transaction is about to commit offsets of these (``require_stable``, KIP-447)."""
        asked = set(partitions)
        return all(asked.isdisjoint(transaction.offsets) for transaction in self._pending)

    # --- inside the brokers -------------------------------------------------------------------

    @staticmethod
    def _refused(producer: _Producer, epoch: int) -> Answer | None:
        if epoch != producer.epoch:
            return Answer(Verdict.FENCED)
        return None if producer.ending is None else Answer(Verdict.LATER)

    def _begun(self, producer: _Producer, process: Process) -> Transaction:
        if producer.open is None:
            transaction = producer.open = Transaction(process)
            producer.ended = None
            self._world.timeline.after(TIMEOUT_MS, self._time_out, producer, transaction)
        return producer.open

    def _time_out(self, producer: _Producer, transaction: Transaction) -> None:
        """Abort a transaction that is still open, and fence its producer."""
        if producer.open is transaction:
            producer.epoch += 1
            self._decide(producer, committed=False)

    def _decide(self, producer: _Producer, *, committed: bool) -> None:
        transaction, producer.open = producer.open, None
        if transaction is None:
            return
        producer.ended, producer.ending = committed, transaction
        if not committed:
            self._world.log("aborted", transaction.process, names(share.task for share in transaction.shares))
        else:
            self._world.transacted(transaction.process, transaction.shares, transaction.ends)
        for task in transaction.begins:
            self._world.timeline.after(self._world.marker_takes_ms(), self._mark_changelog, producer, transaction, task)
        if transaction.offsets:
            delay_ms = self._world.marker_takes_ms()
            self._world.timeline.after(delay_ms, self._mark_offsets, producer, transaction, committed)
        self._marked(producer, transaction)

    def _mark_changelog(self, producer: _Producer, transaction: Transaction, task: TaskId) -> None:
        self._logs.grow(task, 1)
        self._unended[task].remove(transaction)
        self._logs.readable_to(task, self._readable(task))
        self._marked(producer, transaction)

    def _mark_offsets(self, producer: _Producer, transaction: Transaction, committed: bool) -> None:
        self._pending.remove(transaction)
        if committed:
            self._world.accepted(transaction.member_id, transaction.offsets)
        self._marked(producer, transaction)

    def _marked(self, producer: _Producer, transaction: Transaction) -> None:
        """Let the producer go on once every partition has its marker."""
        waiting = any(transaction in self._unended[task] for task in transaction.begins)
        if not waiting and transaction not in self._pending:
            producer.ending = None

    def _readable(self, task: TaskId) -> int:
        """Return the last stable offset of a changelog."""
        return min((each.begins[task] for each in self._unended[task]), default=self._logs.ends[task])
