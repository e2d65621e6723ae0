"""What the program may ask a worker's own stores for, and what reaches the threads that have them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing

import pytest

from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError, KeyNotLocal
from kstreams_assign.model import HostInfo, Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.worker.lookup import Lookup, Reading
from kstreams_assign.worker.querying import Queries
from kstreams_assign.worker.reading import KeyReads

STORES = (Store("totals"), Store("table", source="orders"), Store("scratch", logged=False))
SHAPE = TopologyShape((SubtopologyShape(("orders",), STORES),))
INPUT = frozenset({TopicPartition("orders", 0)})


class Reader:
    """A thread that has the task's stores, or none; it keeps the keys that it was asked for."""

    def __init__(self, value: bytes | None = None, *, has: bool = True) -> None:
        self.value, self.has = value, has
        self.keys: list[object] = []

    def peek(self, _task: TaskId, _store: str, key: bytes, answer: Future[Reading | None]) -> None:
        self.keys.append(key)
        answer.set_result(Reading(self.value, {}) if self.has else None)


def reads_of(running: Reader, replicas: Reader) -> KeyReads:
    hosts = ({HostInfo("one", 1): INPUT}, {HostInfo("two", 2): INPUT})
    reads = KeyReads()
    with closing(Queries(Config("app", "b:1"))) as queries:
        reads._reads_begin(Lookup(lambda: (SHAPE, {"orders": 1}), lambda: hosts, running, replicas), queries)
    return reads


@pytest.mark.parametrize("key", [bytearray(b"ann"), memoryview(b"ann"), "", "ann", None, 7, [b"ann"]])
@pytest.mark.parametrize("ask", [KeyReads.locate, KeyReads.read])
def test_a_key_of_another_type_is_refused_before_a_thread_is_asked(
    ask: Callable[[KeyReads, str, object], object], key: object
) -> None:
    running, replicas = Reader(b"5"), Reader(b"5")
    with pytest.raises(ConfigError, match=f"^key is of type {type(key).__name__}: must be bytes"):
        ask(reads_of(running, replicas), "totals", key)
    assert running.keys == replicas.keys == []


@pytest.mark.parametrize("timeout_s", [None, "5", True, -1, float("nan"), float("inf")])
def test_a_timeout_that_is_no_time_is_refused_before_a_thread_is_asked(timeout_s: float) -> None:
    running = Reader(b"5")
    with pytest.raises(ConfigError, match=r"^timeout_s = "):
        reads_of(running, Reader()).read("totals", b"ann", timeout_s=timeout_s)
    assert running.keys == []


@pytest.mark.parametrize("store", ["totals", "table"])
def test_a_replica_answers_for_a_store_with_a_changelog(store: str) -> None:
    reads = reads_of(Reader(has=False), Reader(b"5"))
    assert reads.read(store, b"ann", allow_standby=True) == b"5"
    assert reads.locate(store, b"ann").standbys == ("two:2",)


def test_a_store_without_a_changelog_has_no_standbys() -> None:
    """A replica of its task has the store, and nothing in it."""
    reads = reads_of(Reader(has=False), Reader(None))
    with pytest.raises(KeyNotLocal, match="active: one:1; standbys: none known"):
        reads.read("scratch", b"ann", allow_standby=True)
    assert reads.locate("scratch", b"ann").standbys == ()
    assert reads_of(Reader(b"5"), Reader(None)).read("scratch", b"ann", allow_standby=True) == b"5"
