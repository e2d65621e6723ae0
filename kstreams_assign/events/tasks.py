"""Events of tasks, their stores and their input."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kstreams_assign.events.base import BaseEvent, ReasonEvent, TaskReasonEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """State of one task in this process."""

    role: str
    """``active``, ``standby``, ``warmup``, or ``leaving`` for a task that is being closed."""
    state: str
    """``restoring``, ``running``, ``tailing``, ``closed``, or ``stopped`` for a task that waits to be tried again."""
    lag: int | None
    """Offsets to the end of its changelogs, in sum; null if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePace:
    """Progress of one task that is behind the end of its changelogs."""

    remaining: int
    """Offsets left."""
    offsets_per_s: int | None
    """Null while it is unknown."""
    left_ms: int | None
    """Estimated milliseconds left; null while they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEvent(BaseEvent):
    """Five times a second: how this process stands."""

    name: ClassVar[str] = "status"
    generation: int | None
    """Null while the process is no member."""
    next_probe_ms: int | None
    """Wall-clock time of the next probing rebalance; null if none is due or the leader does not report it."""
    records_total: int
    """Input records that were processed since the start."""
    tasks: Mapping[str, TaskStatus]
    restoring: Mapping[str, RestorePace]
    """Task -> progress, of the tasks that are behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoringEvent(BaseEvent):
    """A restore takes longer than 5 s; reported every 10 s for all such tasks."""

    name: ClassVar[str] = "restoring"
    tasks: tuple[str, ...]
    remaining: int
    """Offsets left, in sum."""
    offsets_per_s: int
    """Offsets restored a second, in sum."""
    left_s: int | None
    """Estimated seconds until the last task is restored; null while they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEvent(BaseEvent):
    """An active task is restored and starts to process."""

    name: ClassVar[str] = "running"
    task: str
    positions: Mapping[str, int]
    """Input partition -> the offset from which the task reads."""
    restored: int
    """Offsets that were read from its changelogs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRecordEvent(BaseEvent):
    """A task got its first record since it runs."""

    name: ClassVar[str] = "first_record"
    task: str
    offset: int
    """Offset of the record."""
    partition: str
    """As ``topic-partition``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimitedEvent(BaseEvent):
    """A slow or large batch, or a commit that failed, makes the next ones smaller; reported every 10 s at most."""

    name: ClassVar[str] = "batch_limited"
    limit: str
    """Limit that was met."""
    records: int
    """Records that the next batch or commit has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailedEvent(TaskReasonEvent):
    """A commit or a store of a task failed. The task forgets what is not committed, pauses, and is restored."""

    name: ClassVar[str] = "task_failed"
    level: ClassVar[int] = logging.WARNING
    pause_ms: int
    """Milliseconds until it is restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStoppedEvent(TaskReasonEvent):
    """A task cannot work here, such as for a full disk or missing rights. It is tried again; the other tasks go on."""

    name: ClassVar[str] = "task_stopped"
    level: ClassVar[int] = logging.WARNING
    retry_ms: int
    """Milliseconds until it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPausedEvent(BaseEvent):
    """An active task is paused: now, or elsewhere before it came here. Its input is not read until it is resumed."""

    name: ClassVar[str] = "task_paused"
    task: str
    since_ms: int
    """When it was paused, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResumedEvent(BaseEvent):
    """A task that was stopped or paused works again."""

    name: ClassVar[str] = "task_resumed"
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDiscardedEvent(TaskReasonEvent):
    """A damaged store was moved to the trash; the task is restored from the start of its changelogs."""

    name: ClassVar[str] = "store_discarded"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWipedEvent(TaskReasonEvent):
    """A store does not fit its changelog and was emptied; it is restored from the changelog's start."""

    name: ClassVar[str] = "store_wiped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFailedEvent(BaseEvent):
    """Your function raised; nothing of the call is committed, and the worker ends by this error."""

    name: ClassVar[str] = "function_failed"
    level: ClassVar[int] = logging.ERROR
    task: str
    partition: str
    """Input partition of the batch, as ``topic-partition``; empty if no record caused the call."""
    offset: int
    """Offset of the record at work: the record that the function read last; -1 if no record caused the call."""
    records: int
    """Number of records in the batch, or of timers that were due."""
    reason: str
    """Type and message of the error."""
    call: str = ""
    """The call that no record caused: ``init``, a punctuator, or timers that are due; empty for records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSetAsideEvent(BaseEvent):
    """A record could not be processed and was set aside, as ``on_error`` says; each cause is reported once."""

    name: ClassVar[str] = "record_set_aside"
    level: ClassVar[int] = logging.WARNING
    task: str
    partition: str
    """Input partition, as ``topic-partition``, or that of an output; empty for a call that no record caused."""
    offset: int
    """Offset of the record; -1 for a call that no record caused, and for an output of a sidecar's application."""
    response: str
    """``skip``, or ``dead_letter`` for a record that goes to the dead-letter topic."""
    reason: str
    """Type and message of the error."""
    call: str = ""
    """The call that no record caused: ``init``, a punctuator, or timers that are due; empty for records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailedEvent(TaskReasonEvent):
    """A commit could not write a store; its task goes on from its last commit."""

    name: ClassVar[str] = "store_failed"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutOfRangeEvent(ReasonEvent):
    """The brokers no longer hold the committed offset of an input partition; ``auto_offset_reset`` decides."""

    name: ClassVar[str] = "input_out_of_range"
    level: ClassVar[int] = logging.WARNING
    reset: str
    """``auto_offset_reset``: where the task starts to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """Transaction before which a task waits."""

    task: str
    partition: str
    """As ``topic-partition``."""
    start_offset: int
    producer_id: int
    transactional_id: str | None
    """Null where no coordinator knows the producer."""
    hanging: bool
    """Whether no coordinator will ever end it (KIP-664)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForTransactionsEvent(BaseEvent):
    """Tasks wait before open transactions, exactly once only; reported again when it changes, and empty at the end."""

    name: ClassVar[str] = "waiting_for_transactions"
    transactions: tuple[OpenTransaction, ...]
    """The transactions, with the tasks that wait for them."""
    warnings: tuple[str, ...]
    """For each transaction that does not end by itself, the command that ends it."""
