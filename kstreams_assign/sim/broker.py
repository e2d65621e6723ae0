"""The brokers' logs and the network: growing input, changelogs, committed offsets, and messages in both directions.

A changelog is two numbers: its end offset, and the input offset up to which it holds results. They show whether a
fenced member writes, and whether input is committed without its results. The group coordinator and transactions have
their own modules.
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
"""The time until a broken connection is noticed."""

Answer = TypeVar("Answer")
Take = Callable[[Answer], None]
Later = Callable[[Take[Answer]], None]
Failed = Callable[[], None]


def nothing() -> None:
    """Ignore a lost message."""


def ignored(_answer: object) -> None:
    """Ignore an answer."""


@dataclass
class Logs:
    """``ends`` and ``works`` of changelogs, by task; ``committed`` by input partition. All are next offsets.

    ``changelog_ends``: ``ends`` by changelog partition; ``readable`` is the same, or with transactions their last
    stable offset. ``firm``: where the last committed results end. ``restored`` counts records read from changelogs, up
    to the end at the time when reading began.
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
        self.firm = dict(self.ends)
        self.readable = dict(self.changelog_ends) if self.scenario.exactly_once else self.changelog_ends

    def input_end(self, partition: TopicPartition, now_ms: int) -> int:
        """Return the end of an input partition, which grows evenly until ``stopped_ms``."""
        return self.firsts.get(partition, 0) + self.grown(now_ms)

    def grown(self, now_ms: int) -> int:
        """Return the number of records that each input partition has received."""
        stopped_ms = self.stopped_ms
        until_ms = now_ms if stopped_ms is None or now_ms < stopped_ms else stopped_ms
        return (until_ms - START_MS) * self._records_per_s // 1000

    def append(self, task: TaskId, records: int, work: int) -> None:
        """Append results up to the input offset ``work``."""
        self.grow(task, records)
        self.works[task] = work

    def grow(self, task: TaskId, records: int) -> None:
        """Append records that do not count yet, or a marker."""
        self.ends[task] += records
        self.changelog_ends.update(dict.fromkeys(self._changelogs[task], self.ends[task]))

    def readable_to(self, task: TaskId, offset: int) -> None:
        """Set the last stable offset."""
        self.readable.update(dict.fromkeys(self._changelogs[task], offset))

    def end_offsets(self) -> dict[TopicPartition, int]:
        return dict(self.changelog_ends)


class Network:
    """One connection per process, which keeps the order of messages. A lost message breaks the connection."""

    def __init__(self, timeline: Timeline, faults: Faults, chance: Chance) -> None:
        self.faults = faults
        self._timeline = timeline
        self._chance = chance
        self._usual_ms = chance.between(FASTEST_MS, SLOWEST_MS)

    def ask(self, sender: Incarnation, request: Callable[[], Answer], answered: Take[Answer], failed: Failed) -> None:
        """Send a request that the broker answers at once with ``request()``; then call ``answered`` or ``failed``."""
        self._send(sender, self._handle_ask, request, answered, failed)

    def call(self, sender: Incarnation, request: Later[Answer], answered: Take[Answer], failed: Failed) -> None:
        """As ``ask``, but the broker answers later, through the callable that ``request`` gets."""
        self._send(sender, self._handle_call, request, answered, failed)

    def tell(self, sender: Incarnation, receive: Callable[[], None]) -> None:
        """Send a message without an answer; a loss goes unnoticed."""
        self._send(sender, self._received, receive, ignored, nothing)

    def _send(
        self,
        sender: Incarnation,
        arrived: Callable[..., None],
        message: Callable[..., Any],
        answered: Take[Answer],
        failed: Failed,
    ) -> None:
        travel_ms = self._travel_ms(sender)
        if travel_ms is None:
            sender.later(BREAK_MS, failed)
            return
        sent_ms = self._timeline.now_ms
        arrives_ms = sent_ms + travel_ms
        sender.wire_ms = max(sender.wire_ms, arrives_ms)
        self._timeline.at(sender.wire_ms, arrived, sender, sent_ms, message, answered, failed)

    def _handle_ask(
        self, sender: Incarnation, sent_ms: int, request: Callable[[], Answer], answered: Take[Answer], failed: Failed
    ) -> None:
        if (sender.alive and not sender.cut_off) or self._arrives(sender, sent_ms, failed):
            self._answer(sender, answered, failed, request())

    def _handle_call(
        self, sender: Incarnation, sent_ms: int, request: Later[Answer], answered: Take[Answer], failed: Failed
    ) -> None:
        if self._arrives(sender, sent_ms, failed):
            request(partial(self._answer, sender, answered, failed))

    def _received(
        self, sender: Incarnation, sent_ms: int, receive: Callable[[], None], _answered: Take[Answer], failed: Failed
    ) -> None:
        if self._arrives(sender, sent_ms, failed):
            receive()

    def _arrives(self, sender: Incarnation, sent_ms: int, failed: Failed) -> bool:
        if not sender.alive and self._timeline.now_ms - sent_ms > SLOWEST_MS:
            return False  # slow messages end with the connection of a dead process
        if sender.cut_off:
            sender.later(BREAK_MS, failed)
            return False
        return True

    def _answer(self, sender: Incarnation, answered: Take[Answer], failed: Failed, what: Answer) -> None:
        travel_ms = self._travel_ms(sender)
        if travel_ms is None:
            sender.later(BREAK_MS, failed)
        else:
            sender.later(travel_ms, answered, what)

    def _travel_ms(self, sender: Incarnation) -> int | None:
        """Draw the travel time of a message; None: it is lost."""
        faults = self.faults
        if sender.cut_off or (faults.lost_message and self._chance.random() < faults.lost_message):
            return None
        if faults.slow_message and self._chance.random() < faults.slow_message:
            return self._chance.randint(FASTEST_MS, SLOW_MS)
        return self._usual_ms()
