"""Apply changelogs to stores: active tasks until they are restored; standbys and warm-ups until they are removed.

One thread owns a ``Restorer`` and calls ``step`` over and over; each call answers with events. A task's stores belong
to the restorer from ``add`` until an event or ``remove`` hands them back, so no store is ever used by two threads.

What must not be here: opening or closing stores, deciding who owns a task, waiting for anything but the reader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from kstreams_assign.errors import BrokerUnavailable, StateError
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.ports import Bounds, ChangelogBatch, ChangelogReader
from kstreams_assign.restore.progress import (
    Beginning,
    PartitionProgress,
    RestoreRate,
    TaskProgress,
    beginning,
    standbys_wait,
)
from kstreams_assign.tasks.stores import TaskStores

_log = logging.getLogger(__name__)

LEADERLESS_REPORTED = 6
"""Elections take a moment and are no news; six times in a row is about 3 s."""


class Purpose(Enum):
    """Why a changelog is read."""

    ACTIVE = "active"
    """Up to its end as of now, then handed back."""
    STANDBY = "standby"
    """A standby or a warm-up: tailed until it is promoted or removed."""


@dataclass(frozen=True, slots=True)
class Restored:
    """An active task stands at the end of its changelogs. Its stores are the receiver's now."""

    task: TaskId
    stores: TaskStores


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a task. Reported when its restore begins, when its purpose changes, and at intervals."""

    task: TaskId
    purpose: Purpose
    progress: TaskProgress


@dataclass(frozen=True, slots=True)
class Damaged:
    """A task's stores failed, or a changelog of it cannot be read, and it is no longer restored.

    The receiver closes the stores; if ``error`` is a ``StoreDamaged`` it discards them too, and may add the task again.
    """

    task: TaskId
    stores: TaskStores
    error: StateError


@dataclass(frozen=True, slots=True)
class Missing:
    """These changelogs of a task have not existed for a while.

    The loop keeps looking for them, and reports them once until they exist.
    """

    task: TaskId
    changelogs: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class StartedOver:
    """A task's stores did not fit its changelogs. They were wiped and are read from the start."""

    task: TaskId
    reason: str


Event = Restored | Progress | Damaged | Missing | StartedOver


@dataclass(frozen=True, slots=True)
class Pacing:
    """When to look up bounds and when to report, in milliseconds, and which tasks wait for others."""

    progress_interval_ms: int = 1_000
    standby_ends_interval_ms: int = 5_000
    """How often the ends of standbys' changelogs are looked up, in one call for all."""
    missing_retry_ms: int = 1_000
    """A changelog that does not exist yet is looked for again after this."""
    leaderless_retry_ms: int = 50
    leaderless_retry_max_ms: int = 5_000
    """Bounds of a changelog without a leader are looked up again after the first, then after twice as long each time,
    up to the second.
    """
    missing_reported_ms: int = 3_000
    """A changelog that has not existed for this long is reported as ``Missing``."""
    bounds_age_ms: int = 10_000
    """When bounds are older than this, an active task that reaches its end or has not moved for ``stalled_ms`` looks
    once more where its changelogs end, and whether they are the same.
    """
    standby_budget_records: int = 50_000
    """Standbys are not read while active tasks have more than this to restore."""
    stalled_ms: int = 3_000
    """An active task that has not moved for this long no longer holds up standbys, and looks up old bounds again."""
    rebuild_records: int = 50_000
    """With more than this left, what is written need not outlast a crash by itself."""
    caught_up: int = 0
    """A queued warm-up with at most so many offsets left lets the next one begin."""


@dataclass(slots=True)
class _Job:
    task: TaskId
    stores: TaskStores
    store_of: Mapping[TopicPartition, str]
    purpose: Purpose
    progress: TaskProgress | None = None
    """``None`` until the bounds of its changelogs are known."""
    end_known: bool = False
    """For an active task: the end was looked up after it became active."""
    look_up_at_ms: int | None = 0
    """When to ask for bounds (again); ``None``: no need."""
    reported: Mapping[TopicPartition, PartitionProgress] | None = None
    """The partitions of the last ``Progress`` with this purpose."""
    looked_at_ms: int = 0
    """When bounds were last known."""
    leaderless: int = 0
    """How often in a row a changelog's leader did not answer with its bounds."""
    missing_since_ms: int | None = None
    missing_reported: bool = False

    @property
    def restored(self) -> bool:
        """Whether an active task is at its end."""
        return self.end_known and self.progress is not None and self.progress.done


class Restorer:
    """Owns the tasks being restored or tailed. Every method is called by one and the same thread.

    ``name_of`` returns what the log calls a task.
    """

    def __init__(
        self,
        reader: ChangelogReader,
        *,
        now_ms: Callable[[], int],
        pacing: Pacing | None = None,
        name_of: Callable[[TaskId], str] = "task {}".format,
    ) -> None:
        self._reader = reader
        self._now_ms = now_ms
        self._pacing = pacing or Pacing()
        self._name_of = name_of
        self._jobs: dict[TaskId, _Job] = {}
        self._job_of: dict[TopicPartition, _Job] = {}
        self._reading: set[TopicPartition] = set()
        self._queue: tuple[TaskId, ...] = ()
        self._at_once = 0
        self.queued: frozenset[TaskId] = frozenset()  # the tasks of the queue whose turn has not come
        self._turn_began_ms: dict[TaskId, int] = {}
        """Of the tasks in the queue whose turn has come."""
        self._events: list[Event] = []
        self._report_at_ms = 0
        self._unanswered: set[str] = set()
        self.applied_total = 0
        """Batches read so far: whether a step brought anything."""
        self.rate = RestoreRate()

    @property
    def tasks(self) -> dict[TaskId, Purpose]:
        """The tasks that are here now."""
        return {task: job.purpose for task, job in self._jobs.items()}

    def add(self, task: TaskId, stores: TaskStores, store_of: Mapping[TopicPartition, str], purpose: Purpose) -> None:
        """Take over a task's stores and read ``store_of``'s changelog partitions into the stores it names.

        Raises ``StateError`` if the task, or a changelog of it, is here already.
        """
        if task in self._jobs or not self._job_of.keys().isdisjoint(store_of):
            raise StateError(
                f"task {task}, or a changelog of it, is being restored already; promote or remove it instead"
            )
        job = self._jobs[task] = _Job(task, stores, dict(store_of), purpose)
        self._job_of.update(dict.fromkeys(job.store_of, job))

    def stores_of(self, task: TaskId) -> TaskStores | None:
        """To look into, between two steps; None if the task is not here, or its state is being replaced."""
        job = self._jobs.get(task)
        return None if job is None or job.progress is None else job.stores

    def positions_of(self, task: TaskId) -> Mapping[TopicPartition, int]:
        """The next offset of each changelog of a task that ``stores_of`` returns stores of."""
        job = self._jobs.get(task)
        progress = None if job is None else job.progress
        return {} if progress is None else {name: at.position for name, at in progress.partitions.items()}

    def promote(self, task: TaskId) -> bool:
        """A standby becomes active: read on to the end as of now. False if the task is not here (any more)."""
        return self._repurpose(task, Purpose.ACTIVE)

    def demote(self, task: TaskId) -> bool:
        """An active task still being restored becomes a standby. False if the task is not here (any more)."""
        return self._repurpose(task, Purpose.STANDBY)

    def queue(self, order: Sequence[TaskId], at_once: int) -> None:
        """Of these tasks read the first ``at_once`` that are not caught up, and those that are; others as usual."""
        self._queue, self._at_once = tuple(order), at_once
        self._turn_began_ms.clear()

    def remove(self, task: TaskId) -> TaskStores | None:
        """Stop reading and hand the stores back; ``None`` if an event of an earlier step did so."""
        job = self._jobs.get(task)
        return None if job is None else self._let_go(job)

    def step(self, timeout_s: float) -> list[Event]:
        """Look up what is not known, read once (waiting up to ``timeout_s``), apply, and tell what came of it."""
        self._look_up_bounds()
        self._hand_back_restored()
        batches = self._read(0.0 if self._events else timeout_s)
        for batch in batches:
            self._apply(batch)
        if batches:
            self._hand_back_restored()
            self._measure()
        self._report_progress()
        events, self._events = self._events, []
        return events

    def _repurpose(self, task: TaskId, purpose: Purpose) -> bool:
        job = self._jobs.get(task)
        if job is None:
            return False
        if job.purpose is not purpose:
            job.purpose, job.end_known, job.look_up_at_ms, job.reported = purpose, False, 0, None
        return True

    # Bounds: what the reader has to be asked before records mean anything.

    def _look_up_bounds(self) -> None:
        now_ms = self._now_ms()
        due = [job for job in self._jobs.values() if job.look_up_at_ms is not None and job.look_up_at_ms <= now_ms]
        if not due:
            return
        asked = [partition for job in due for partition in job.store_of]
        try:
            bounds = self._reader.bounds(asked) if asked else {}
        except BrokerUnavailable as error:
            self._warn_once("bounds", error)
            return
        if asked:
            self._unanswered.clear()
        for job in due:
            self._take_bounds(job, {name: bounds[name] for name in job.store_of if name in bounds})

    def _take_bounds(self, job: _Job, reported: Mapping[TopicPartition, Bounds | None]) -> None:
        now_ms = self._now_ms()
        bounds = {name: its for name, its in reported.items() if its is not None}
        if len(bounds) < len(reported):
            self._note_leaderless(job, [name for name in reported if name not in bounds], now_ms)
            return
        job.leaderless = 0
        if len(bounds) < len(job.store_of):
            job.look_up_at_ms = now_ms + self._pacing.missing_retry_ms
            self._note_missing(job, tuple(sorted(job.store_of.keys() - bounds.keys())), now_ms)
            return
        job.looked_at_ms, job.missing_since_ms, job.missing_reported = now_ms, None, False
        job.look_up_at_ms = None if job.purpose is Purpose.ACTIVE else now_ms + self._pacing.standby_ends_interval_ms
        try:
            self._place(job, bounds, now_ms)
        except StateError as error:
            self._give_up(job, error)

    def _note_leaderless(self, job: _Job, leaderless: Iterable[TopicPartition], now_ms: int) -> None:
        """This task waits, more patiently each time; the others go on."""
        wait_ms = min(self._pacing.leaderless_retry_ms << min(job.leaderless, 10), self._pacing.leaderless_retry_max_ms)
        job.look_up_at_ms = now_ms + wait_ms
        job.leaderless += 1
        if job.leaderless == LEADERLESS_REPORTED:
            names = ", ".join(map(str, sorted(leaderless)))
            _log.warning(
                "%s waits for its changelog %s: the brokers do not say where it ends; the restore tries again",
                self._name_of(job.task),
                names,
            )

    def _note_missing(self, job: _Job, missing: tuple[TopicPartition, ...], now_ms: int) -> None:
        if job.missing_since_ms is None:
            job.missing_since_ms = now_ms
        if not job.missing_reported and now_ms - job.missing_since_ms >= self._pacing.missing_reported_ms:
            job.missing_reported = True
            self._events.append(Missing(job.task, missing))

    def _place(self, job: _Job, bounds: Mapping[TopicPartition, Bounds], now_ms: int) -> None:
        """Begin, go on, or start over, by what the stores hold and what the changelogs hold."""
        held, ids = job.stores.offsets(), job.stores.identities()
        beginnings = {name: _beginning(job, name, bounds[name], held, ids) for name in job.store_of}
        if reasons := [f"{name}: {how.value}" for name, how in beginnings.items() if how.wipes]:
            self._start_over(job, "; ".join(reasons))
            beginnings = dict.fromkeys(beginnings, Beginning.FRESH)
        ends = {name: its.restored_at for name, its in bounds.items()}
        self._identify(job, bounds)
        if job.progress is None:
            at = {
                name: bounds[name].first if how is Beginning.FRESH else held[name] for name, how in beginnings.items()
            }
            job.progress = TaskProgress.begin(at, ends, now_ms)
        else:
            job.progress = job.progress.extended(ends, now_ms)
        job.end_known = True

    @staticmethod
    def _identify(job: _Job, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """A store that an earlier version wrote takes the topics for its own that are there now."""
        ids = {name.topic: its.topic_id for name, its in bounds.items() if its.topic_id is not None}
        if not ids:
            return
        known = job.stores.identities()
        news = {topic: topic_id for topic, topic_id in ids.items() if known.get(topic) != topic_id}
        if news:
            job.stores.identify(news)

    def _start_over(self, job: _Job, reason: str) -> None:
        _log.warning(
            "%s starts over: its state is wiped and restored from the changelog's start: %s",
            self._name_of(job.task),
            reason,
        )
        self._stop_reading(job.store_of)
        job.stores.wipe()
        job.progress, job.end_known, job.reported = None, False, None
        self._events.append(StartedOver(job.task, reason))

    # Reading: the reader follows what the jobs want; active tasks come first.

    def _read(self, timeout_s: float) -> list[ChangelogBatch]:
        try:
            self._settle_reading()
            batches = self._reader.poll(timeout_s)
        except BrokerUnavailable as error:
            self._warn_once("records", error)
            return []
        if batches:  # perhaps read before the outage, in which polls are empty: no answer for the bounds
            self._unanswered.discard("records")
        return batches

    def _settle_reading(self) -> None:
        read = self._wanted()
        wanted = {name for progress in read for name in progress.partitions}
        if wanted == self._reading:
            return
        self._stop_reading(self._reading - wanted)
        fresh = {
            name: at.position
            for progress in read
            for name, at in progress.partitions.items()
            if name not in self._reading
        }
        if fresh:
            self._reader.add(fresh)
            self._reading.update(fresh)

    def _wanted(self) -> list[TaskProgress]:
        """Return the tasks that should be read now."""
        active, pacing = Purpose.ACTIVE, self._pacing
        known = [(job, job.progress) for job in self._jobs.values() if job.progress is not None]
        restoring = [progress for job, progress in known if job.purpose is active]
        wait = bool(restoring) and standbys_wait(
            restoring, pacing.standby_budget_records, pacing.stalled_ms, self._now_ms()
        )
        if wait:
            self._turn_began_ms.clear()
        self.queued = self._find_queued(0 if wait else self._at_once)
        return [progress for job, progress in known if job.purpose is active or not (wait or job.task in self.queued)]

    def _find_queued(self, at_once: int) -> frozenset[TaskId]:
        """Return the tasks whose turn has not come. One that does not get on in its turn holds up no other."""
        jobs = [self._jobs[task] for task in self._queue if task in self._jobs]
        now_ms, waiting = self._now_ms(), set[TaskId]()
        for job in jobs:
            progress = job.progress
            if progress is not None and progress.remaining <= self._pacing.caught_up:
                continue
            if at_once > 0:
                began_ms = self._turn_began_ms.setdefault(job.task, now_ms)
                moved_ms = began_ms if progress is None else max(began_ms, progress.moved_at_ms)
                at_once -= now_ms - moved_ms <= self._pacing.stalled_ms
            else:
                self._turn_began_ms.pop(job.task, None)
                waiting.add(job.task)
        return frozenset(waiting)

    def _stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        stopped = self._reading.intersection(partitions)
        if stopped:
            self._reader.remove(stopped)
            self._reading -= stopped

    # Applying: one batch of one partition is one write.

    def _apply(self, batch: ChangelogBatch) -> None:
        self.applied_total += 1
        job = self._job_of.get(batch.partition)
        if job is None or job.progress is None:
            return  # it left between the fetch and now
        try:
            self._write(job, job.progress, batch)
        except StateError as error:
            self._give_up(job, error)

    def _write(self, job: _Job, progress: TaskProgress, batch: ChangelogBatch) -> None:
        if batch.unreadable:
            raise StateError(batch.unreadable)
        if not batch.in_range:
            self._reading.discard(batch.partition)
            job.look_up_at_ms, job.end_known = 0, False
            if batch.next_offset == progress.partitions[batch.partition].position:
                self._start_over(job, f"{batch.partition}: the changelog no longer has offset {batch.next_offset}")
            return  # else it is the answer to an earlier read: read again from where the task stands
        advanced = progress.advanced(batch.partition, batch.next_offset, self._now_ms())
        much = advanced.remaining > self._pacing.rebuild_records
        apply = job.stores.rebuild if much else job.stores.write
        apply({job.store_of[batch.partition]: batch.writes}, {batch.partition: batch.next_offset})
        job.progress = advanced
        self.rate.count(advanced.position_sum - progress.position_sum)

    # Telling.

    def _measure(self) -> None:
        behind = any(job.progress is not None and not job.progress.done for job in self._jobs.values())
        self.rate.note(self._now_ms(), behind=behind)

    def _hand_back_restored(self) -> None:
        active, now_ms = Purpose.ACTIVE, self._now_ms()
        for job in [job for job in self._jobs.values() if job.purpose is active and job.end_known]:
            restored, old = job.restored, job.looked_at_ms < now_ms - self._pacing.bounds_age_ms
            if restored and not old:
                self._events.append(Restored(job.task, self._let_go(job)))
            elif old and job.look_up_at_ms is None and (restored or self._has_stalled(job, now_ms)):
                job.look_up_at_ms = 0

    def _has_stalled(self, job: _Job, now_ms: int) -> bool:
        """Whether a task waits for offsets that may never come: its changelog may have lost its last records."""
        return job.progress is not None and now_ms - job.progress.moved_at_ms >= self._pacing.stalled_ms

    def _report_progress(self) -> None:
        now_ms = self._now_ms()
        all_due = now_ms >= self._report_at_ms
        if all_due:
            self._report_at_ms = now_ms + self._pacing.progress_interval_ms
        for job in self._jobs.values():
            progress = job.progress
            if progress is not None and progress.partitions != job.reported and (all_due or job.reported is None):
                job.reported = progress.partitions
                self._events.append(Progress(job.task, job.purpose, progress))

    def _give_up(self, job: _Job, error: StateError) -> None:
        self._events.append(Damaged(job.task, self._let_go(job), error))

    def _let_go(self, job: _Job) -> TaskStores:
        self._stop_reading(job.store_of)
        del self._jobs[job.task]
        for partition in job.store_of:
            del self._job_of[partition]
        return job.stores

    def _warn_once(self, question: str, error: BrokerUnavailable) -> None:
        if not self._unanswered:
            _log.warning("the restore waits for the broker and tries again: %s", error)
        self._unanswered.add(question)


def _beginning(
    job: _Job, name: TopicPartition, bounds: Bounds, held: Mapping[TopicPartition, int], ids: Mapping[str, str]
) -> Beginning:
    known = ids.get(name.topic)
    replaced = known is not None and bounds.topic_id is not None and known != bounds.topic_id
    stored = held.get(name)
    data = not stored and job.progress is None and _has_unexplained_data(job, job.store_of[name], held)
    return beginning(stored, bounds.first, bounds.end, replaced=replaced, data=data)


def _has_unexplained_data(job: _Job, store: str, held: Mapping[TopicPartition, int]) -> bool:
    """Whether a store has entries, and no offset of a changelog that they may be from."""
    if any(held.get(name) for name, its_store in job.store_of.items() if its_store == store):
        return False
    return next(job.stores.range(store), None) is not None
