"""Stores that expire, are in memory, or have changelog settings: a real Java application restores what we wrote."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.allowed_values import GUARANTEES
from tests.java.shared import SharedApp
from tests.worker.app import PATIENCE_S, Running
from tests.worker.test_shared_state import Sent, send, until, whole_log

TTL_MS = 10_000
EARLY = [Sent(b"expires", b"1", 0), Sent(b"written again", b"2", 0), Sent(b"both", b"3", 1)]
LATE = [Sent(b"written again", b"4", 8_000), Sent(b"both", None, 9_000), Sent(b"moves the clock", b"5", 15_000)]
FROM_JAVA = [Sent(b"of java", b"6", 16_000), Sent(b"moves the clock", b"7", 17_000)]
LAST = [Sent(b"last", b"8", 30_000)]


def keep(task: Task, records: Sequence[Record]) -> None:
    """Keep each record in both stores (``Shared.java`` does the same)."""
    for record in records:
        assert record.key is not None
        for store in (task.store("plain"), task.store("stamped")):
            if record.value is None:
                store.delete(record.key)
            else:
                store.put(record.key, record.value)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_java_restores_them_and_what_java_wrote_expires_with_us(
    broker: str,
    java_peer: object,  # noqa: ARG001  # says whether Java can be compiled
    tmp_path: Path,
    guarantee: str,
) -> None:
    began_ms, name = int(time.time() * 1000) - 60_000, f"kinds-{guarantee.replace('_', '-')}"
    topic = f"{name}-in"
    admin = ClusterAdmin(broker)
    admin.create_topics({topic: 1, f"{topic}-out": 1}, PATIENCE_S)
    stores = [
        Store("plain", in_memory=True, changelog_config={"segment.ms": 3_600_000}),
        Store("stamped", ttl_ms=TTL_MS),
    ]
    config = Config(
        application_id=name,
        bootstrap_servers=broker,
        state_dir=str(tmp_path / "ours"),
        session_timeout_ms=30_000,
        processing_guarantee=guarantee,
    )

    def ours() -> Running:
        return Running(config, [Subtopology(keep, sources=[topic], stores=stores, sinks=[f"{topic}-out"])])

    def times(*sent: Sent) -> dict[bytes, tuple[bytes, int]]:
        return {each.key: (each.value or b"", began_ms + each.after_ms) for each in sent}

    with ExitStack() as ends:
        first = ours()
        ends.callback(first.stop)
        first.until_running(1)
        send(broker, topic, began_ms, EARLY)
        until(lambda: first.worker.read("stamped", b"both"), lambda value: value == b"3")
        send(broker, topic, began_ms, LATE)
        whole_log(broker, f"{name}-stamped-changelog", len(EARLY) + len(LATE) + 1)  # and the tombstone
        first.stop()

        java = SharedApp(broker, name, tmp_path / "java", topic, processing_guarantee=guarantee)
        ends.callback(java.close)
        java.until_running()
        shown = java.stores()
        assert shown.stamped == times(LATE[0], LATE[2]), "what has expired is deleted in the changelog"
        assert shown.plain == {b"expires": b"1", b"written again": b"4", b"moves the clock": b"5"}
        send(broker, topic, began_ms, FROM_JAVA)
        until(java.stores, lambda shown: b"of java" in shown.plain and shown.plain[b"moves the clock"] == b"7")
        java.close()

        second = ours()
        ends.callback(second.stop)
        second.until_running(1)
        until(lambda: second.worker.read("stamped", b"of java"), lambda value: value == b"6")
        send(broker, topic, began_ms, LAST)
        until(lambda: second.worker.read("plain", b"last"), lambda value: value == b"8")
        assert second.worker.read("plain", b"of java") == b"6"
        until(lambda: second.worker.read("stamped", b"of java"), lambda value: value is None)
        assert second.worker.read("stamped", b"last") == b"8"
    assert admin.topic_setting(f"{name}-plain-changelog", "segment.ms", PATIENCE_S) == "3600000"
