"""A shop for the sidecar's tests: orders in, totals per customer out; sidecars and applications."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kstreams_assign import TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, RecordProducer
from kstreams_assign.errors import SidecarRefused
from kstreams_assign.events import Event, StatusEvent
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.sidecar.sidecar import Sidecar
from kstreams_assign.tasks.stores import Write

PARTITIONS = 2
WITHIN_S = 90
STORE = "totals"


class RunningSidecar:
    """A sidecar in its own thread, and its events."""

    def __init__(self, settings: SidecarSettings) -> None:
        self.events: list[Event] = []
        self.error: BaseException | None = None
        self._news = threading.Condition()
        self.sidecar = Sidecar(settings, self._hear)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.sidecar.run()
        except BaseException as error:  # noqa: BLE001  # the test reads it
            self.error = error
            with self._news:
                self._news.notify_all()

    def _hear(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def until(self, wanted: Callable[[Sequence[Event]], bool]) -> None:
        with self._news:
            met = self._news.wait_for(lambda: wanted(self.events) or self.error is not None, WITHIN_S)
        assert self.error is None, self.error
        assert met, self.events[-5:]

    def until_event(self, kind: type[Event], since: int = 0) -> None:
        self.until(lambda events: any(isinstance(event, kind) for event in events[since:]))

    def until_running(self, tasks: int) -> None:
        since = len(self.events)  # the last status may be out of date

        def runs(events: Sequence[Event]) -> bool:
            status = [event for event in events[since:] if isinstance(event, StatusEvent)][-1:]
            return bool(status) and sum(task.state == "running" for task in status[0].tasks.values()) == tasks

        self.until(runs)

    def stop(self) -> None:
        self.sidecar.close()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()


class Shop:
    """One application on the broker."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        self.broker, self.name, self.folder = broker, name, folder
        self.output = f"{name}-out"
        self.sent: Counter[bytes] = Counter()
        self.sidecars: list[RunningSidecar] = []
        self.admin = ClusterAdmin(broker)
        self.admin.create_topics({name: PARTITIONS, self.output: PARTITIONS}, WITHIN_S)
        self._producer = RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1000)

    def send(self, customers: Sequence[bytes]) -> None:
        for customer in customers:
            self._producer.produce(self.name, None, customer, b"1")
        self._producer.flush(WITHIN_S)
        self.sent.update(customers)

    def send_large(self, count: int, size: int) -> None:
        """Send records that no application counts, all to one partition."""
        for _ in range(count):
            self._producer.produce(self.name, 0, b"large", b"1" * size)
        self._producer.flush(WITHIN_S)

    def settings(self, number: int = 1, **more: Any) -> dict[str, Any]:
        return {
            "application_id": self.name,
            "bootstrap_servers": self.broker,
            "state_dir": str(self.folder / f"state-{number}"),
            "socket": str(self.folder / f"{number}.sock"),
            "session_timeout_ms": 30_000,
            "acceptable_recovery_lag": 100,
            "topology": {"subtopology": [{"sources": [self.name], "stores": [STORE], "sinks": [self.output]}]},
            **more,
        }

    def start(self, number: int = 1, **more: Any) -> RunningSidecar:
        started = RunningSidecar(SidecarSettings.from_mapping(self.settings(number, **more)))
        self.sidecars.append(started)
        return started

    def connect(self, number: int = 1) -> SidecarClient:
        return SidecarClient(str(self.folder / f"{number}.sock"), timeout_s=WITHIN_S)

    def stop(self) -> None:
        for sidecar in self.sidecars:
            sidecar.stop()
        self._producer.close()

    def committed(self) -> Counter[bytes]:
        """Return the newest totals in the changelog, by customer, as they are now."""
        changelog = f"{self.name}-{STORE}-changelog"
        partitions = [TopicPartition(changelog, p) for p in range(PARTITIONS)]
        if changelog not in self.admin.partition_counts([changelog], WITHIN_S):
            return Counter()
        ends = self.admin.end_offsets(partitions, WITHIN_S)
        reader = ConfluentChangelogReader(self.broker, group_id=self.name, admin=self.admin)
        reader.add(dict.fromkeys(partitions, 0))
        total_by_key: dict[bytes, int] = {}
        left = {p for p, end in ends.items() if end}
        while left:
            for batch in reader.poll(1):
                total_by_key.update((key, int(value)) for key, value in batch.writes if value is not None)
                if batch.next_offset >= ends[batch.partition]:
                    left.discard(batch.partition)
        reader.close()
        return Counter(total_by_key)

    def emitted(self) -> Counter[bytes]:
        """Return the newest total of each customer in the output topic, as a committed reader sees it now."""
        return Counter({key: int(value) for key, value in self._output()[0] if value is not None})

    def markers(self) -> int:
        """Return how many offsets of the output topic hold no record: the ends of transactions."""
        records, end = self._output()
        return end - len(records)

    def _output(self) -> tuple[list[Write], int]:
        """Return the committed records of the output topic, oldest first in each partition, and the sum of its ends."""
        partitions = [TopicPartition(self.output, p) for p in range(PARTITIONS)]
        ends = self.admin.end_offsets(partitions, WITHIN_S)
        reader = ConfluentChangelogReader(self.broker, group_id=self.name, admin=self.admin, read_committed=True)
        reader.add(dict.fromkeys(partitions, 0))
        records: list[Write] = []
        left = {p for p, end in ends.items() if end}
        while left:
            for batch in reader.poll(1):
                records += batch.writes
                if batch.next_offset >= ends[batch.partition]:
                    left.discard(batch.partition)
        reader.close()
        return records, sum(ends.values())


def add_up(session: SidecarClient, max_records: int = 500, timeout_ms: int = 100) -> int:
    """Poll, add each order to its customer's total, emit the totals, without a commit; return how many orders."""
    records = session.poll(max_records, timeout_ms)
    by_task: dict[str, Counter[bytes]] = {}
    for record in records:
        by_task.setdefault(record.task, Counter())[record.key or b""] += int(record.value or b"0")
    for task, orders in by_task.items():
        try:
            _add_up_task(session, task, orders)
        except SidecarRefused as refused:
            if refused.code != "task_migrated":  # the next owner of the task reads these orders again
                raise
    return len(records)


def _add_up_task(session: SidecarClient, task: str, orders: Counter[bytes]) -> None:
    keys = list(orders)
    before = session.get(task, STORE, keys)
    totals = {key: b"%d" % (int(old or b"0") + orders[key]) for key, old in zip(keys, before, strict=True)}
    session.put(task, STORE, totals)
    session.emit(task, sink_of(session), list(totals), list(totals.values()))


def sink_of(session: SidecarClient) -> str:
    return f"{session.welcome['application_id']}-out"


def add_up_until(session: SidecarClient, shop: Shop, most: int = 500) -> None:
    """Work until the changelog holds the totals of all orders."""
    deadline = time.monotonic() + WITHIN_S
    while shop.committed() != shop.sent:
        assert time.monotonic() < deadline, (shop.committed() - shop.sent, shop.sent - shop.committed())
        while add_up(session, most):
            session.commit()
