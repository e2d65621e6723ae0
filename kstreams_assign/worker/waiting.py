"""Tasks that wait before an open transaction: whose it is, and whether it will end.

Exactly once, changelogs and inputs are read up to their first open transaction, and the brokers return committed
offsets once no transaction on them is open. Mostly it is a dead owner's and ends at its timeout. One that hangs
(KIP-664) never ends; a warning names it with the remedy. What must not live here: the judgement
(``observe.transactions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC, kept_in
from kstreams_assign.adapters.kafka_python.transactions import transactions_on_brokers
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError
from kstreams_assign.events import LookupFailedEvent, OpenTransaction, WaitingForTransactionsEvent
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.observe.transactions import ExaminedTransaction, HeldUp, in_words
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.topology.internal import is_internal
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.input_progress import InputProgress
from kstreams_assign.worker.sender import Sender

STILL_MS = 10_000
"""Look for a transaction after so long without progress; a commit takes less."""
ASK_INTERVAL_MS = 10_000
IDLE_ASK_INTERVAL_MS = 60_000
"""Where tasks wait at the end of an input only: there the last transaction's marker looks like a record to come."""


class Look(Protocol):
    """Ask the brokers for open transactions of these partitions. Raises ``BrokerError``.

    ``offsets``: also of the partition that holds the group's committed offsets.
    """

    def __call__(self, partitions: Iterable[TopicPartition], *, offsets: bool) -> list[ExaminedTransaction]: ...


def look_of(config: Config, admin: ClusterAdmin, log: EventLog, timeout_s: float) -> Look:
    """Return a worker's look. Without the right to look at the group's offsets, it looks at the rest."""

    def look(partitions: Iterable[TopicPartition], *, offsets: bool) -> list[ExaminedTransaction]:
        with transactions_on_brokers(config.bootstrap_servers, config.client, timeout_s) as brokers:
            transactions = brokers.look(partitions)
            try:
                if offsets:
                    transactions += brokers.look([kept_in(admin, OFFSETS_TOPIC, config.application_id, timeout_s)])
            except BrokerError as cause:
                log.emit(LookupFailedEvent(what="transactions in the group's offsets", reason=str(cause)))
            return transactions

    return look


class Still(NamedTuple):
    """Partitions and tasks without progress for ``STILL_MS``, though there is more to read.

    ``changelogs``: each with the task that reads it and its position; ``inputs``: each with its task; ``without``:
    tasks whose committed offsets the brokers do not return.
    """

    changelogs: Mapping[TopicPartition, tuple[TaskId, int]]
    inputs: Mapping[TopicPartition, TaskId]
    without: Sequence[TaskId]

    @property
    def tasks(self) -> set[TaskId]:
        return {*self.without, *self.inputs.values(), *(task for task, _ in self.changelogs.values())}

    @property
    def ask_interval_ms(self) -> int:
        """Return the milliseconds between two questions."""
        return ASK_INTERVAL_MS if self.changelogs or self.without else IDLE_ASK_INTERVAL_MS


def _changelogs(progress: Mapping[TaskId, TaskProgress], now_ms: int) -> dict[TopicPartition, tuple[TaskId, int]]:
    still = {task: each for task, each in progress.items() if now_ms - each.moved_at_ms >= STILL_MS}
    return {
        name: (task, at.position) for task, each in still.items() for name, at in each.partitions.items() if not at.done
    }


def _inputs(inputs: Mapping[TopicPartition, InputProgress], now_ms: int) -> dict[TopicPartition, TaskId]:
    return {name: at.task for name, at in inputs.items() if at.lag and now_ms - at.moved_at_ms >= STILL_MS}


def held_up(
    application_id: str, transactions: Iterable[ExaminedTransaction], still: Still
) -> list[tuple[TaskId, ExaminedTransaction]]:
    """Return which task waits for which of these transactions.

    A task whose position is before a transaction in a changelog waits for something else. Of inputs only hanging
    transactions count: other applications write there, and before one there may be slow work, or markers. The group's
    offsets share their partition with other groups', so there only the application's own transactions count.
    """
    waits = []
    for each in transactions:
        if each.open.partition in still.changelogs:
            task, position = still.changelogs[each.open.partition]
            waits += [(task, each)] if each.open.start_offset <= position else []
        elif each.open.partition in still.inputs:
            waits += [(still.inputs[each.open.partition], each)] if each.hanging else []
        elif each.of(application_id) and each.open.partition.topic == OFFSETS_TOPIC:
            waits += [(task, each) for task in still.without]
    return waits


class WaitingTasks:
    """Look now and then, on a thread of its own. One thread calls ``turn`` and ``close``; any may call ``waiting``."""

    def __init__(self, application_id: str, bootstrap_servers: str, look: Look, log: EventLog) -> None:
        self._remedy = f"kstreams-assign transactions {application_id} -b {bootstrap_servers} --end"
        """The command finds the application's own topics, and those whose offsets it has committed."""
        self._application_id = application_id
        self._look = look
        self._log = log
        self._asking: Sender | None = None
        self._asked: Future[list[ExaminedTransaction]] | None = None
        self._asked_at_ms = -IDLE_ASK_INTERVAL_MS
        self._held_up: Mapping[TaskId, ExaminedTransaction] = {}

    def waiting(self) -> Mapping[TaskId, HeldUp]:
        """Return the tasks that waited at the last look."""
        return _held_up(self._held_up)

    def turn(
        self,
        progress: Mapping[TaskId, TaskProgress],
        inputs: Mapping[TopicPartition, InputProgress],
        unanswered: Mapping[TaskId, int],
        now_ms: int,
    ) -> None:
        """Take an answer, and ask again if it is time and a task waits.

        ``unanswered``: tasks whose committed offsets the brokers do not return, and since when.
        """
        without = sorted(task for task, since_ms in unanswered.items() if now_ms - since_ms >= STILL_MS)
        still = Still(_changelogs(progress, now_ms), _inputs(inputs, now_ms), without)
        waiting = still.tasks
        self._report({task: each for task, each in self._held_up.items() if task in waiting})
        if self._asked is not None:
            self._take(self._asked, still)
        elif waiting and now_ms - self._asked_at_ms >= still.ask_interval_ms:
            self._asked_at_ms = now_ms
            self._ask(sorted({*still.changelogs, *still.inputs}), offsets=bool(without))

    def close(self) -> None:
        """Leave the thread that asks behind."""
        if self._asking is not None:
            self._asking.close(0)

    def _ask(self, partitions: list[TopicPartition], *, offsets: bool) -> None:
        self._asking = self._asking or Sender("kstreams-transactions")
        self._asked = self._asking.submit(lambda: self._look(partitions, offsets=offsets))

    def _take(self, asked: Future[list[ExaminedTransaction]], still: Still) -> None:
        if not asked.done():
            return
        self._asked = None
        try:
            transactions = held_up(self._application_id, asked.result(), still)
        except BrokerError as cause:
            self._log.emit(LookupFailedEvent(what="open transactions", reason=str(cause)))
            return
        # Of several transactions that one task waits for, one that does not end comes last, and is reported.
        self._report(dict(sorted(transactions, key=lambda pair: pair[1].in_vain)))

    def _report(self, transactions: Mapping[TaskId, ExaminedTransaction]) -> None:
        before, self._held_up = _held_up(self._held_up), transactions
        if (now := _held_up(transactions)) == before:
            return
        warnings = [
            f"{task} waits: {now[task].text}; {self._remedy}{self._named(each.open.partition.topic)}"
            for task, each in transactions.items()
            if each.in_vain
        ]
        reported = [_reported(task, each) for task, each in transactions.items()]
        self._log.emit(WaitingForTransactionsEvent(transactions=tuple(reported), warnings=tuple(warnings)))

    def _named(self, topic: str) -> str:
        return "" if topic == OFFSETS_TOPIC or is_internal(self._application_id, topic) else f" --topic {topic}"


def _reported(task: TaskId, examined: ExaminedTransaction) -> OpenTransaction:
    return OpenTransaction(
        task=str(task),
        partition=str(examined.open.partition),
        start_offset=examined.open.start_offset,
        producer_id=examined.open.producer_id,
        transactional_id=examined.coordinated.transactional_id if examined.coordinated else None,
        hanging=examined.hanging,
    )


def _held_up(transactions: Mapping[TaskId, ExaminedTransaction]) -> dict[TaskId, HeldUp]:
    return {task: HeldUp(in_words(each), each.in_vain) for task, each in transactions.items()}
