"""A request handler with one running task, for tests that play the session and the loop."""

from __future__ import annotations

from typing import Any

from kstreams_assign import Config
from kstreams_assign.adapters.rocksdb import RocksTaskStores
from kstreams_assign.events import Event, TaskStatus
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition
from kstreams_assign.sidecar.messages import read_request
from kstreams_assign.sidecar.ops import Limits
from kstreams_assign.sidecar.request_handler import RequestHandler
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.bad_records import BadRecords
from kstreams_assign.worker.global_views import NO_TABLES, Views
from kstreams_assign.worker.labour import Facts
from kstreams_assign.worker.on_error import OnError
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

SHAPE = SubtopologyShape(("orders",), (Store("totals"), Store("stamped", timestamped=True)))
TASK, INPUT = TaskId(0, 0), TopicPartition("orders", 0)
OTHER_TASK, OTHER_INPUT = TaskId(0, 1), TopicPartition("orders", 1)
LAST_MS = 5_000
"""The time of the last record that ``bring`` brings."""


class Port:
    """A session's reply channel: it keeps its messages."""

    full = False

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.events: list[dict[str, Any]] = []

    def answer(self, number: int, message: dict[str, Any]) -> None:
        assert number not in self.answers
        self.answers[number] = message["error"]["code"] if "error" in message else message["ok"]

    def push(self, message: dict[str, Any]) -> None:
        self.events.append(message)


class Stand:
    """A handler with one running task, in a loop that takes orders at once; the test acts as the processor."""

    def __init__(self, stores: RocksTaskStores, on_error: OnError = "fail", *, exactly_once: bool = False) -> None:
        settings = {"application_id": "app", "bootstrap_servers": "localhost:1"}
        config = Config(**settings, errors_dead_letter_queue_topic_name="dead")
        self.bad_records = BadRecords([on_error], config)
        self.handler = RequestHandler(Limits(records_max=100), self.bad_records, exactly_once=exactly_once)
        self.rewound: dict[TopicPartition, int] = {}
        self.reported: list[Event] = []
        self.handler.connect(self, lambda: Facts(7, {"0_0": TaskStatus(role="active", state="running", lag=0)}))
        self.stores = stores
        self.begin()
        self._number = 0
        self.port = Port()
        self.handler.open(self.port)

    def begin(self, global_tables: Views = NO_TABLES) -> None:
        self.running = self._running(TASK, INPUT, global_tables)
        self.handler.assigned(7, Adopted({TASK: (INPUT,)}, frozenset(), frozenset()))
        self.handler.begins(self.running)

    def begin_another(self) -> Running:
        """Let a second task run, of the partition ``OTHER_INPUT``."""
        running = self._running(OTHER_TASK, OTHER_INPUT)
        self.handler.begins(running)
        return running

    def _running(self, task: TaskId, partition: TopicPartition, global_tables: Views = NO_TABLES) -> Running:
        times = {partition: PartitionTime()}
        workspace = TaskWorkspace(
            task, SHAPE, {"out": "out"}, self.stores, AtWork(0), times, global_tables=global_tables
        )
        return Running(workspace, InputOffsets({partition: 10}), times)

    def order(self, work) -> None:
        work()

    def emit(self, event: Event) -> None:
        self.reported.append(event)

    def rewind(self, positions) -> None:
        self.rewound.update(positions)

    def broken(self, task, error) -> None:
        self.handler.ends(task)
        self.handler.failed([task], str(error))

    def ask(self, op: str, **fields: object) -> int:
        """Send a request; return its number in ``port.answers`` once it is answered."""
        self._number += 1
        self.handler.submit(self.port, read_request({"id": self._number, "op": op, **fields}))
        self.handler.turn()
        return self._number

    def bring(self, offset: int, count: int = 1) -> None:
        records = [Record("orders", 0, offset + n, LAST_MS - count + 1 + n, b"k", b"v") for n in range(count)]
        self.handler.work(self.running, INPUT, records)
        self.handler.turn()

    def put(self, key: bytes) -> int:
        return self.ask("put", task="0_0", store="totals", keys=(key,), values=(b"v",))

    def commit_begins(self) -> tuple[set[bytes], dict[TopicPartition, int]]:
        """Begin a commit as the processor does; return what it takes."""
        assert self.handler.wants_commit()
        work = self.running.take()
        self.handler.commit_begins()
        self.handler.turn()
        return set(work.taken.writes.get("totals", ())), dict(work.offsets)


def polled(stand: Stand, offset: int, count: int = 1) -> None:
    number = stand.ask("poll", max_records=10)
    stand.bring(offset, count)
    assert len(stand.port.answers[number]["records"]) == count


def reject(stand: Stand, offset: int, **fields: object) -> object:
    record = {"topic": "orders", "partition": 0, "offset": offset, "timestamp_ms": 5, "key": b"k", "value": b"v"}
    number = stand.ask("reject", **{"task": "0_0", "record": record, "exception": "ValueError: bad", **fields})
    return stand.port.answers[number]


def dead_letters(stand: Stand) -> list[bytes | None]:
    """The offsets of the records whose dead letters leave with the next commit."""
    rows = [row for row in stand.running.workspace.unsent() if row[0] == "dead"]
    return [dict(row[3])["__streams.errors.offset"] for row in rows]
