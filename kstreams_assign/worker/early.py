"""Early probing's shell: members publish their replicas' progress, and the leader reads it (rules: ``group.probing``).

The channel is a topic of the application, ``<application id>-warm-up-progress``: one partition, an hour's retention. It
is a topic and not offsets under side groups, because the leader then needs one fetch for the whole group instead of one
request for each member, and because the access rules of the application's changelogs cover it. A record's key is the
process id, its header ``generation`` the generation of the report, and its value the SubscriptionInfo that this process
would join with. A process that may not write or read the topic loses only the early rebalance: the probing interval
still holds.

A Java leader does not read it. A member of ours then watches its own replicas, and asks once they have caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerUnavailable, DeliveryFailed, KStreamsAssignError, MalformedUserData
from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.group.probing import (
    Answer,
    Gain,
    GainReported,
    GenerationStarted,
    Prober,
    Rejoin,
    Sums,
    compute_gain,
    find_tasks_behind,
)
from kstreams_assign.group.values import Adopted, LeaderState
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.events import EventLog

TURN_S = 0.5
REPUBLISH_MS = 5_000
OWN_LOOK_MS = 1_000
REQUEST_S = 5.0
RECORDS_MAX = 10_000
GENERATION = "generation"
TOPIC_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "3600000", "segment.bytes": "1048576"}

EndOffsetSums = Callable[[Iterable[TaskId]], Mapping[TaskId, int]]


def progress_topic(application_id: str) -> str:
    """The topic through which members tell the leader how far their copies are."""
    return f"{application_id}-warm-up-progress"


@dataclass(frozen=True, slots=True)
class _Generation:
    """A generation in which a probing rebalance is due; ``standing`` only where this member leads it."""

    number: int
    standing: LeaderState | None


@dataclass(slots=True)
class _Unheard:
    """A generation whose leader does not read progress records.

    ``at``: the offset sums of this member's replicas when it began. ``late``: the replicas that were ``behind`` then;
    None until the changelogs' end offsets are known.
    """

    number: int
    at: Sums
    late: Collection[TaskId] | None = None

    @property
    def over(self) -> bool:
        """Nothing of this member is awaited, so there is nothing to ask for."""
        return self.late is not None and not self.late


Copies = Mapping[tuple[UUID, TaskId], TaskProgress]
"""The reported progress of other processes' replicas, ``ALL_CHANGELOGS`` of each task as one partition."""

ALL_CHANGELOGS = TopicPartition("all changelogs of the task", 0)
"""What is published of a task is one sum, so its progress is that of one partition."""


@dataclass(frozen=True, slots=True)
class EarlyView:
    """How early probing stands, for status. ``off`` says why it is; ``due``: a probing rebalance is.

    ``alone``: the leader does not read progress records, so this member asks for its own replicas. A leader, and a
    member alone, know the ``gain`` of a rebalance now and the ``answer`` to it (times are monotonic). Only the leader
    knows all ``copies``.
    """

    off: str | None = None
    due: bool = False
    gain: Gain | None = None
    answer: Answer | None = None
    copies: Copies = field(default_factory=dict)
    alone: bool = False


@dataclass(slots=True)
class _Heard:
    """What members of the generation have published."""

    generation: int
    sums: dict[UUID, Sums] = field(default_factory=dict)
    gain: Gain | None = None
    answer: Answer | None = None
    copies: Copies = field(default_factory=dict)
    asked_at_ms: int = 0


class EarlyProbing:
    """Publishes while a probe is due, listens while this member leads. ``adopted`` may be called from any thread."""

    def __init__(
        self,
        config: Config,
        process: UUID,
        sums: OffsetSums,
        admin: ClusterAdmin,
        end_offset_sums: EndOffsetSums,
        rejoin: Callable[[str], None],
        log: EventLog,
    ) -> None:
        self._config = config
        self._process = process
        self._sums = sums
        self._admin = admin
        self._end_offset_sums = end_offset_sums
        self._rejoin = rejoin
        self._log = log
        self._partition = TopicPartition(progress_topic(config.application_id), 0)
        self._prober = Prober(config.early_probing_floor_ms)
        self._current: _Generation | _Unheard | None = None
        self._published: tuple[int, dict[TaskId, int]] | None = None
        self._published_at_ms = 0
        self._heard = _Heard(-1)
        self._off = None if config.early_probing else "early_probing = false"
        self._producer: RecordProducer | None = None
        self._reader: InputConsumer | None = None

    def adopted(self, generation: int, adopted: Adopted, standing: LeaderState | None) -> None:
        """An assignment is here. ``standing``: what this member decided, if it leads."""
        if adopted.follow_up:
            self._current = None
        elif standing is None and adopted.assignor is None:
            known = self._sums.report(owned_only=True)
            copies = {task: known.get(task, 0) for task in adopted.standby | adopted.warmup}
            self._current = _Unheard(generation, copies) if copies else None
        else:
            self._current = None if adopted.next_probe_ms is None else _Generation(generation, standing)

    def run(self, stopped: EndRequest) -> None:
        """Run until ``stopped``. If the broker refuses, early probing ends with a warning; retry other errors."""
        if not self._config.early_probing:
            return
        with ExitStack() as clients:
            try:
                while not stopped.wait(TURN_S):
                    self._turn(clients)
            except KStreamsAssignError as cause:
                self._off = str(cause)
                self._log.emit("early_probing_off", warnings=[f"{cause}; the probing interval holds"])

    def view(self) -> EarlyView:
        """For status, from any thread."""
        current, heard = self._current, self._heard
        if current is None or (isinstance(current, _Unheard) and current.over):
            return EarlyView(self._off)
        alone = isinstance(current, _Unheard)
        if heard.generation != current.number:
            return EarlyView(self._off, due=True, alone=alone)
        return EarlyView(self._off, True, heard.gain, heard.answer, heard.copies, alone)

    def _turn(self, clients: ExitStack) -> None:
        current = self._current
        if current is None:
            return
        if isinstance(current, _Unheard):
            if not current.over:
                self._look_after_own(current)
            return
        with suppress(BrokerUnavailable, DeliveryFailed):  # the next turn tries again
            self._publish(current, clients)
            self._listen(current, clients)

    # --- a member's part where the leader hears nothing --------------------------------

    def _look_after_own(self, current: _Unheard) -> None:
        now_ms = monotonic_ms()
        if self._heard.generation != current.number:
            self._begin(current.number, now_ms)
        elif now_ms - self._heard.asked_at_ms < OWN_LOOK_MS:
            return
        tasks = current.at if current.late is None else current.late
        ends = self._end_offset_sums(tasks)
        self._heard.asked_at_ms = now_ms
        if not ends:
            return
        acceptable = self._config.acceptable_recovery_lag
        if current.late is None:
            current.late = find_tasks_behind(tasks, current.at, ends, acceptable)
        still = find_tasks_behind(current.late, self._sums.report(owned_only=True), ends, acceptable)
        self._judge(Gain(len(current.late) - len(still), len(still)), now_ms)

    def _begin(self, generation: int, now_ms: int) -> None:
        self._heard = _Heard(generation)
        self._prober.handle(GenerationStarted(), now_ms)

    def _judge(self, gain: Gain, now_ms: int) -> None:
        self._heard.gain = gain
        answer = self._heard.answer = self._prober.handle(GainReported(gain), now_ms)
        if isinstance(answer, Rejoin):
            self._log.emit("early_probe", reason=answer.reason, moves=gain.moves, standbys=gain.standbys)
            self._rejoin(answer.reason)

    # --- a member's part -----------------------------------------------------------

    def _publish(self, current: _Generation, clients: ExitStack) -> None:
        copies = {t: at for t, at in self._sums.report(owned_only=True).items() if at != RUNNING_OFFSET_SUM}
        now_ms = monotonic_ms()
        news = (current.number, copies)
        if not copies or (news == self._published and now_ms - self._published_at_ms < REPUBLISH_MS):
            return
        producer = self._producer = self._producer or self._made_producer(clients)
        report = MemberReport(APACHE.latest_version, APACHE.latest_version, self._process, task_offset_sums=copies)
        headers = [(GENERATION, b"%d" % current.number)]
        producer.produce(*self._partition, str(self._process).encode(), APACHE.write_report(report), headers)
        producer.acknowledged()
        self._published, self._published_at_ms = news, now_ms

    # --- the leader's part ------------------------------------------------------------

    def _listen(self, current: _Generation, clients: ExitStack) -> None:
        if current.standing is None:
            return
        reader = self._reader = self._reader or self._made_reader(clients)
        if self._heard.generation != current.number:
            self._begin(current.number, monotonic_ms())
        news = self._take(reader)
        now_ms = monotonic_ms()
        if not self._heard.sums:
            return
        if news or self._heard.gain is None or now_ms - self._heard.asked_at_ms >= REPUBLISH_MS:
            ends = self._end_offset_sums(current.standing.cluster.stateful)
            self._heard.gain, self._heard.asked_at_ms = self._gain(current.standing, ends), now_ms
            self._heard.copies = _moved_on(self._heard, ends, now_ms)
        self._judge(self._heard.gain, now_ms)

    def _gain(self, standing: LeaderState, ends: Mapping[TaskId, int]) -> Gain:
        if not ends and standing.cluster.stateful:
            return Gain(0, 0)  # not to be had just now
        return compute_gain(standing, self._heard.sums, ends)

    def _take(self, reader: InputConsumer) -> bool:
        """Read on; return whether this generation's members reported new positions."""
        polled = reader.poll(RECORDS_MAX, 0)
        noted = [self._note(record) for records in polled.values() for record in records]  # all, not up to the first
        return any(noted)

    def _note(self, record: Record) -> bool:
        headers = dict(record.headers or ())
        if headers.get(GENERATION) != b"%d" % self._heard.generation or record.value is None:
            return False
        try:
            report = APACHE.read_report(record.value)
        except MalformedUserData as cause:
            self._log.emit("progress_unreadable", warnings=[f"{self._partition} at {record.offset}: {cause}"])
            return False
        if not isinstance(report, MemberReport) or self._heard.sums.get(report.process_id) == report.task_offset_sums:
            return False
        self._heard.sums[report.process_id] = report.task_offset_sums
        return True

    # --- clients, made when they are first needed ---------------------------------------

    def _made_producer(self, clients: ExitStack) -> RecordProducer:
        self._make_topic()
        config = self._config
        timeout_ms = config.session_timeout_ms * 2 // 3
        producer = RecordProducer(config.bootstrap_servers, config.client, delivery_timeout_ms=timeout_ms)
        return clients.enter_context(closing(producer))

    def _made_reader(self, clients: ExitStack) -> InputConsumer:
        """Create a reader at the topic's present end: members report their positions again (``REPUBLISH_MS``)."""
        self._make_topic()
        config = self._config
        reader = InputConsumer(config.bootstrap_servers, config.client, group_id=config.application_id)
        clients.enter_context(closing(reader))
        reader.add(self._admin.end_offsets([self._partition], REQUEST_S))
        return reader

    def _make_topic(self) -> None:
        topic = self._partition.topic
        factor = self._config.replication_factor
        self._admin.create_topics({topic: 1}, REQUEST_S, configs={topic: TOPIC_SETTINGS}, replication_factor=factor)


def _moved_on(heard: _Heard, ends: Mapping[TaskId, int], now_ms: int) -> Copies:
    """Return the positions of the replicas and their speed, from the last reports."""
    return {
        (process, task): _progress(heard.copies.get((process, task)), at, ends[task], now_ms)
        for process, sums in heard.sums.items()
        for task, at in sums.items()
        if task in ends
    }


def _progress(before: TaskProgress | None, at: int, end: int, now_ms: int) -> TaskProgress:
    if before is None or at < before.position_sum:  # new, or it started over
        return TaskProgress.begin({ALL_CHANGELOGS: at}, {ALL_CHANGELOGS: end}, now_ms)
    return before.extended({ALL_CHANGELOGS: end}, now_ms).advanced(ALL_CHANGELOGS, at, now_ms)
