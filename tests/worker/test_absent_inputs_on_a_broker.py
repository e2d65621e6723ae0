"""A source topic that is deleted while a worker reads it: the commits of other tasks go on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kstreams_assign import Config, Record, Subtopology, Task, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.events import OffsetsDroppedEvent
from kstreams_assign.worker import absent_inputs
from tests.worker.app import PATIENCE_S, Running, send_words, until


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_offsets_of_a_deleted_topic_are_dropped_and_all_others_committed(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setattr(absent_inputs, "KEPT_MS", 200)
    name = f"absent-{protocol}"
    kept, deleted = f"{name}-kept", f"{name}-deleted"
    ClusterAdmin(broker).create_topics({kept: 1, deleted: 1}, PATIENCE_S)
    at_work, go_on = threading.Event(), threading.Event()

    def process(_task: Task, records: Sequence[Record]) -> None:
        if records[0].topic == deleted:
            at_work.set()
            assert go_on.wait(PATIENCE_S)

    config = Config(
        application_id=name, bootstrap_servers=broker, state_dir=str(tmp_path), group_protocol=protocol, warm_join=False
    )
    worker = Running(config, [Subtopology(process, [kept]), Subtopology(process, [deleted])])
    worker.until_running(2)
    send_words(broker, deleted, [(b"k", b"v")], {})
    assert at_work.wait(PATIENCE_S)
    client = AdminClient({"bootstrap.servers": broker})
    client.delete_topics([deleted])[deleted].result(PATIENCE_S)
    until(lambda: deleted not in client.list_topics(timeout=PATIENCE_S).topics)
    go_on.set()
    worker.until_event(OffsetsDroppedEvent, partitions=(f"{deleted}-0",))
    send_words(broker, kept, [(b"k", b"v")] * 3, {})
    with closing(CommittedOffsets(broker, None, group_id=name)) as offsets:
        until(lambda: offsets.read([TopicPartition(kept, 0)], PATIENCE_S) == {TopicPartition(kept, 0): 3})
    assert len(worker.reported(OffsetsDroppedEvent)) == 1
    worker.stop()
