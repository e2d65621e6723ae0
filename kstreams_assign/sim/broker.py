"""The brokers' other half: input that grows, changelogs, committed offsets, and the wire to and from them.

A changelog is two numbers: where it ends, and which input offset its last record is the work of. That is enough to see whether
somebody writes over his successor, or commits input whose work no changelog has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.chance import Chance
from kstreams_assign.sim.faults import Faults
from kstreams_assign.sim.incarnation import Incarnation
from kstreams_assign.sim.scenario import APPLICATION, STATEFUL_TOPIC, Scenario
from kstreams_assign.sim.timeline import START_MS, Timeline

FASTEST_MS, SLOWEST_MS = 1, 15
SLOW_MS = 3_000
BREAK_MS = 2_000
"""A broken connection is noticed after this long."""

Answer = TypeVar("Answer")
Take = Callable[[Answer], None]
Later = Callable[[Take[Answer]], None]
Failed = Callable[[], None]


def nothing() -> None:
    """Where nobody minds that a message is lost."""


def ignored(_answer: object) -> None:
    """Where nobody waits for an answer."""


@dataclass
class Logs:
    """``ends`` and ``works`` of changelogs, by task; ``committed`` by input partition. All are next offsets.

    ``changelog_ends`` are ``ends`` once more, by changelog partition.

    ``restored`` counts the records that were read of changelogs up to where these ended when the reading began.
    """

    scenario: Scenario
    ends: dict[TaskId, int] = field(default_factory=dict)
    works: dict[TaskId, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    stopped_ms: int | None = None
    restored: int = 0

    def __post_init__(self) -> None:
        self.changelog_ends: dict[TopicPartition, int] = {}
        self.firsts: dict[TopicPartition, int] = {}
        self._changelogs: dict[TaskId, tuple[TopicPartition, ...]] = {}
        self._records_per_s = self.scenario.records_per_s
        for task in self.scenario.stateful_tasks:
            first = self.ends[task] = self.works[task] = self.scenario.begins_with(task.partition)
            partition = TopicPartition(STATEFUL_TOPIC, task.partition)
            self.committed[partition] = self.firsts[partition] = first
            self._changelogs[task] = tuple(self.scenario.shape.changelogs(APPLICATION, task).values())
            self.changelog_ends.update(dict.fromkeys(self._changelogs[task], first))

    def input_end(self, partition: TopicPartition, now_ms: int) -> int:
        """Grows evenly until ``stopped_ms``."""
        return self.firsts.get(partition, 0) + self.grown(now_ms)

    def grown(self, now_ms: int) -> int:
        """How many records each input partition has got."""
        stopped_ms = self.stopped_ms
        until_ms = now_ms if stopped_ms is None or now_ms < stopped_ms else stopped_ms
        return (until_ms - START_MS) * self._records_per_s // 1000

    def append(self, task: TaskId, records: int, work: int) -> None:
        self.ends[task] += records
        self.works[task] = work
        self.changelog_ends.update(dict.fromkeys(self._changelogs[task], self.ends[task]))

    def end_offsets(self) -> dict[TopicPartition, int]:
        return dict(self.changelog_ends)


class Network:
    """Messages in the order in which they were sent, one wire a process. Lost ones break the connection."""

    def __init__(self, timeline: Timeline, faults: Faults, chance: Chance) -> None:
        self.faults = faults
        self._timeline = timeline
        self._chance = chance

    def ask(self, who: Incarnation, asked: Callable[[], Answer], answered: Take[Answer], failed: Failed) -> None:
        """The broker answers at once, with what ``asked`` returns there; then ``answered`` or ``failed`` at the asker."""
        self._send(who, self._asked, asked, answered, failed)

    def call(self, who: Incarnation, called: Later[Answer], answered: Take[Answer], failed: Failed) -> None:
        """As ``ask``; the broker answers when it likes, by what ``called`` is given there."""
        self._send(who, self._called, called, answered, failed)

    def tell(self, who: Incarnation, told: Callable[[], None]) -> None:
        """Without an answer; nobody hears of it if it is lost."""
        self._send(who, self._told, told, ignored, nothing)

    def _send(
        self,
        who: Incarnation,
        arrived: Callable[..., None],
        message: Callable[..., Any],
        answered: Take[Answer],
        failed: Failed,
    ) -> None:
        travel_ms = self._travel_ms(who)
        if travel_ms is None:
            who.later(BREAK_MS, failed)
            return
        sent_ms = self._timeline.now_ms
        who.wire_ms = max(who.wire_ms, sent_ms + travel_ms)
        self._timeline.at(who.wire_ms, arrived, who, sent_ms, message, answered, failed)

    def _asked(
        self, who: Incarnation, sent_ms: int, asked: Callable[[], Answer], answered: Take[Answer], failed: Failed
    ) -> None:
        if self._arrives(who, sent_ms, failed):
            self._answer(who, answered, failed, asked())

    def _called(
        self, who: Incarnation, sent_ms: int, called: Later[Answer], answered: Take[Answer], failed: Failed
    ) -> None:
        if self._arrives(who, sent_ms, failed):
            called(partial(self._answer, who, answered, failed))

    def _told(
        self, who: Incarnation, sent_ms: int, told: Callable[[], None], _answered: Take[Answer], failed: Failed
    ) -> None:
        if self._arrives(who, sent_ms, failed):
            told()

    def _arrives(self, who: Incarnation, sent_ms: int, failed: Failed) -> bool:
        if not who.alive and self._timeline.now_ms - sent_ms > SLOWEST_MS:
            return False  # a slow message, or one behind it, ends with the connection of a process that died
        if who.cut_off:
            who.later(BREAK_MS, failed)
            return False
        return True

    def _answer(self, who: Incarnation, answered: Take[Answer], failed: Failed, what: Answer) -> None:
        travel_ms = self._travel_ms(who)
        if travel_ms is None:
            who.later(BREAK_MS, failed)
        else:
            who.later(travel_ms, answered, what)

    def _travel_ms(self, who: Incarnation) -> int | None:
        """Of one message; None: it is lost."""
        faults, chance = self.faults, self._chance
        if who.cut_off or (faults.lost_message and chance.random() < faults.lost_message):
            return None
        if faults.slow_message and chance.random() < faults.slow_message:
            return chance.randint(FASTEST_MS, SLOW_MS)
        return chance.randint(FASTEST_MS, SLOWEST_MS)
