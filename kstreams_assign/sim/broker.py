"""The brokers' other half: input that grows, changelogs, committed offsets, and the wire to and from them.

A changelog is two numbers: where it ends, and which input offset its last record is the work of. That is enough to see whether
somebody writes over his successor, or commits input whose work no changelog has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

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
Ask = Callable[[Callable[[Answer], None]], None]
Failed = Callable[[], None]


def nothing() -> None:
    """Where nobody minds that a message is lost."""


@dataclass
class Logs:
    """``ends`` and ``works`` of changelogs, by task; ``committed`` by input partition. All are next offsets.

    ``restored`` counts the records that were read of changelogs up to where these ended when the reading began.
    """

    scenario: Scenario
    ends: dict[TaskId, int] = field(default_factory=dict)
    works: dict[TaskId, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    stopped_ms: int | None = None
    restored: int = 0

    def __post_init__(self) -> None:
        self.changelogs: dict[TopicPartition, TaskId] = {}
        self._firsts: dict[TopicPartition, int] = {}
        for task in self.scenario.stateful_tasks:
            first = self.ends[task] = self.works[task] = self.scenario.begins_with(task.partition)
            partition = TopicPartition(STATEFUL_TOPIC, task.partition)
            self.committed[partition] = self._firsts[partition] = first
            self.changelogs.update(dict.fromkeys(self.scenario.shape.changelogs(APPLICATION, task).values(), task))

    def input_end(self, partition: TopicPartition, now_ms: int) -> int:
        """Grows evenly until ``stopped_ms``."""
        until_ms = now_ms if self.stopped_ms is None else min(now_ms, self.stopped_ms)
        return self._firsts.get(partition, 0) + (until_ms - START_MS) * self.scenario.records_per_s // 1000

    def append(self, task: TaskId, records: int, work: int) -> None:
        self.ends[task] += records
        self.works[task] = work

    def end_offsets(self) -> dict[TopicPartition, int]:
        return {changelog: self.ends[task] for changelog, task in self.changelogs.items()}


class Network:
    """Messages in the order in which they were sent, one wire a process. Lost ones break the connection."""

    def __init__(self, timeline: Timeline, faults: Faults, chance: Chance) -> None:
        self.faults = faults
        self._timeline = timeline
        self._chance = chance

    def call(self, who: Incarnation, ask: Ask[Answer], answered: Callable[[Answer], None], failed: Failed) -> None:
        """``ask`` is called at the broker with a callable for the answer; then ``answered`` or ``failed`` at the asker."""
        if self._lost(who):
            who.later(BREAK_MS, failed)
            return
        sent_ms = self._timeline.now_ms
        who.wire_ms = max(who.wire_ms, sent_ms + self._travel_ms())
        self._timeline.at(who.wire_ms, self._arrived, who, sent_ms, ask, answered, failed)

    def _arrived(
        self, who: Incarnation, sent_ms: int, ask: Ask[Answer], answered: Callable[[Answer], None], failed: Failed
    ) -> None:
        if not who.alive and self._timeline.now_ms - sent_ms > SLOWEST_MS:
            return  # a slow message, or one behind it, ends with the connection of a process that died
        if who.cut_off:
            who.later(BREAK_MS, failed)
        else:
            ask(partial(self._answer, who, answered, failed))

    def _answer(self, who: Incarnation, answered: Callable[[Answer], None], failed: Failed, what: Answer) -> None:
        if self._lost(who):
            who.later(BREAK_MS, failed)
        else:
            who.later(self._travel_ms(), answered, what)

    def tell(self, who: Incarnation, at_broker: Callable[[], None]) -> None:
        """Without an answer; nobody hears of it if it is lost."""

        def ask(_answer: Callable[[None], None]) -> None:
            at_broker()

        self.call(who, ask, lambda _: None, nothing)

    def _lost(self, who: Incarnation) -> bool:
        lost = self.faults.lost_message
        return who.cut_off or (lost > 0 and self._chance.random() < lost)

    def _travel_ms(self) -> int:
        slow = self.faults.slow_message
        if slow and self._chance.random() < slow:
            return self._chance.randint(FASTEST_MS, SLOW_MS)
        return self._chance.randint(FASTEST_MS, SLOWEST_MS)
