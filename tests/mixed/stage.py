"""A mixed application on a broker: its topic, instances in both languages, a steady load, and the counts.

There are two kinds of input. An *id* is a key that is sent once: the changelog must contain it (none lost), and its
total says how often it was applied. A *word* is repeated: its total may never decrease, or state was lost.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Literal

from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.adapters.confluent.group_records import last_group_record
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import GroupMetadata, decode_assignment, decode_consumer_assignment, decode_group_metadata
from tests.java.app_process import PATIENCE_S, AppProcess
from tests.java.streams_app import StreamsApp
from tests.mixed.python_app import LONG, PythonApp

Language = Literal["java", "python"]
WORDS = 50
TURN_S = 0.05
COUNTED_S = 120.0


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts in the changelog. ``went_back``: totals that were smaller than an earlier one of the same key."""

    inputs: int
    lost: int
    twice: int
    went_back: int


class Load:
    """Sends ids and words from its creation to ``stop``, the same number to each partition."""

    def __init__(self, servers: str, topic: str, partitions: int, *, at_once: int, per_s: int) -> None:
        self.sent: Counter[bytes] = Counter()
        self._topic, self._partitions, self._per_turn = topic, partitions, max(1, round(per_s * TURN_S))
        self._producer = RecordProducer(servers, delivery_timeout_ms=round(PATIENCE_S * 1_000))
        self._send(at_once)
        self._producer.flush(PATIENCE_S)
        self._ending = Event()
        self._thread = Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending; return when all inputs are acknowledged."""
        if not self._ending.is_set():
            self._ending.set()
            self._thread.join()
            self._producer.flush(PATIENCE_S)
            self._producer.close()

    def _run(self) -> None:
        while not self._ending.wait(TURN_S):
            self._send(self._per_turn)

    def _send(self, count: int) -> None:
        first = self.sent.total()
        for number in range(first, first + count):
            is_word = number // self._partitions % 10 == 0
            key = b"word-%d" % (number % WORDS) if is_word else b"id-%d" % number
            self._producer.produce(self._topic, (number % WORDS if is_word else number) % self._partitions, key, b"x")
            self.sent[key] += 1


class Stage:
    """One application with one store. ``close`` ends all its processes.

    ``timed``: the changelog exists before the application, and its records have the broker's time.
    """

    def __init__(
        self, servers: str, name: str, folder: Path, partitions: int, standbys: int, *, timed: bool = False
    ) -> None:
        self.servers, self.name, self.partitions = servers, name, partitions
        self.topic = f"{name}-in"
        self._folder, self._standbys = folder, standbys
        self._apps: list[AppProcess] = []
        self._load: Load | None = None
        self._times: dict[int, list[int]] = defaultdict(list)
        self._admin = ClusterAdmin(servers)
        self.changelog = f"{name}-totals-{self.topic}-changelog"
        self._admin.create_topics({self.topic: partitions}, PATIENCE_S)
        if timed:
            by_the_broker = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
            self._admin.create_topics({self.changelog: partitions}, PATIENCE_S, configs={self.changelog: by_the_broker})

    def start(self, language: Language, settings: Mapping[str, object], name: str | None = None) -> AppProcess:
        """Start the next instance on an empty folder, or on the folder of its ``name``."""
        folder = self._folder / (name or f"{language}-{len(self._apps)}")
        kind = StreamsApp if language == "java" else PythonApp
        app = kind(self.servers, self.name, folder, [self.topic], self._standbys, settings)
        self._apps.append(app)
        return app

    def send(self, *, at_once: int, per_s: int) -> None:
        """Send a batch of inputs, then a steady stream until ``counted``."""
        self._load = Load(self.servers, self.topic, self.partitions, at_once=at_once, per_s=per_s)

    def applied(self) -> int:
        """Return the number of records in the changelog's shortest partition."""
        return min(self.applied_to_each())

    def applied_to_each(self) -> list[int]:
        """Return the number of records in each partition of the changelog."""
        partitions = [TopicPartition(self.changelog, number) for number in range(self.partitions)]
        bounds = self._admin.bounds(partitions, PATIENCE_S)
        return [bounds[partition][1] if partition in bounds else 0 for partition in partitions]

    def leader(self) -> str:
        """Return the client id of the group's leader, by the group's last record."""
        metadata = self.metadata()
        return next(member.client_id for member in metadata.members if member.member_id == metadata.leader)

    def metadata(self) -> GroupMetadata:
        """Return the last completed generation."""
        record = last_group_record(self.servers, None, self.name, PATIENCE_S)
        assert record is not None, f"no group {self.name}"
        assert record.value is not None, f"group {self.name} is gone"
        return decode_group_metadata(record.value)

    def counted(self) -> Counts:
        """End the load, and wait until the changelog has all of it."""
        assert self._load is not None
        self._load.stop()
        return self._read(self._load.sent)

    def times(self) -> dict[int, list[int]]:
        """Return arrival times of the changelog's records, by partition, as far as ``counted`` has read; wall clock."""
        return self._times

    def _read(self, sent: Counter[bytes]) -> Counts:
        partitions = {TopicPartition(self.changelog, number): 0 for number in range(self.partitions)}
        totals: dict[bytes, int] = {}
        went_back, deadline = 0, time.monotonic() + COUNTED_S
        with closing(InputConsumer(self.servers, group_id=self.name)) as reader:
            reader.add(partitions)
            while (missing := short_of(sent, totals)) and time.monotonic() < deadline:
                for records in reader.poll(50_000, 0.3).values():
                    for record in records:
                        assert record.key is not None
                        assert record.value is not None
                        total = LONG.unpack(record.value)[0]
                        went_back += total < totals.get(record.key, 0)
                        totals[record.key] = total
                        self._times[record.partition].append(record.timestamp_ms)
        twice = sum(total - sent[key] for key, total in totals.items() if total > sent[key])
        return Counts(sent.total(), missing, twice, went_back)

    def close(self) -> None:
        if self._load is not None:
            self._load.stop()
        for app in self._apps:
            app.close()


def given(metadata: GroupMetadata) -> dict[str, list[str]]:
    """Return, by client id, the active tasks that its member was assigned in that generation."""
    answers = {member.client_id: decode_consumer_assignment(member.assignment).user_data for member in metadata.members}
    return {name: sorted(map(str, decode_assignment(data).active_tasks)) for name, data in answers.items() if data}


def short_of(sent: Counter[bytes], totals: Mapping[bytes, int]) -> int:
    """Return how many inputs the totals lack."""
    return sum(max(0, count - totals.get(key, 0)) for key, count in sent.items())


def balanced(apps: Iterable[AppProcess], tasks: int, standbys: int) -> bool:
    """Return whether the tasks are spread evenly and run, with each possible replica and no other."""
    instances = list(apps)
    copies = min(standbys, len(instances) - 1) * tasks
    active = [len(app.active) for app in instances]
    spread = sum(active) == tasks and max(active) - min(active) <= 1
    return spread and sum(len(app.standby) for app in instances) == copies and all(app.running for app in instances)


def until(so: Callable[[], bool], limit_s: float, about: str, apps: Sequence[AppProcess]) -> float:
    """Wait until the condition holds; return the time in seconds. Fail if an instance ends meanwhile."""
    began = time.monotonic()
    while not so():
        states = [(type(app).__name__, app.active, app.standby, app.named("state")[-1:], app.alive) for app in apps]
        assert all(app.alive for app in apps), f"an instance ended; {about}: {states}"
        if time.monotonic() - began >= limit_s:
            stacks = "\n".join(app.stacks() for app in apps)
            raise AssertionError(f"not within {limit_s:.0f} s: {about}: {states}\n{stacks}")
        Event().wait(0.1)
    return round(time.monotonic() - began, 1)
