"""An application's outputs that the broker refuses: the worker goes on, and nothing else of the application is lost."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign import Record, TopicPartition
from kstreams_assign.adapters.confluent import TopicReader
from kstreams_assign.errors import SidecarRefused
from kstreams_assign.events import RecordSetAsideEvent
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.tasks.dead_letters import DeadLetter, read_dead_letter
from tests.sidecar.shop import PARTITIONS, STORE, WITHIN_S, Shop, sink_of

GUILTY = b"guilty"
CUSTOMERS = [b"ann", b"bob", GUILTY, b"cid"] * 5
TOPIC_BYTES_MAX = 2_000


class PickyShop(Shop):
    """Its output topic takes small records only."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        super().__init__(broker, name, folder)
        self.letters, self.small = f"{name}-dead", f"{name}-small"
        limit = {"max.message.bytes": str(TOPIC_BYTES_MAX)}
        self.admin.create_topics({self.letters: 1, self.small: 1}, WITHIN_S, configs={self.small: limit})

    def begin(self, on_error: str, guarantee: str) -> None:
        subtopology = {
            "sources": [self.name],
            "stores": [STORE],
            "sinks": [self.output, self.small],
            "on_error": on_error,
        }
        running = self.start(
            topology={"subtopology": [subtopology]},
            processing_guarantee=guarantee,
            errors_dead_letter_queue_topic_name=self.letters,
        )
        running.until_running(PARTITIONS)

    def read_letters(self) -> list[DeadLetter]:
        at = TopicPartition(self.letters, 0)
        records: list[Record] = []
        with closing(TopicReader(self.broker, None, {at: 0}, group_id="reads", read_committed=True)) as reader:
            ended: Collection[TopicPartition] = ()
            while at not in ended:
                arrived, ended = reader.read(1_000, 1.0)
                records += arrived
        letters = list(map(read_dead_letter, records))
        assert None not in letters
        return [letter for letter in letters if letter is not None]


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PickyShop]:
    picky_shop = PickyShop(broker, re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:].strip("-"), tmp_path)
    yield picky_shop
    picky_shop.stop()


def work_until_done(session: SidecarClient, shop: PickyShop) -> Counter[str]:
    """Count each order, send it to both topics, and commit; return how often each error came."""
    errors: Counter[str] = Counter()
    counted: Counter[bytes] = Counter()
    deadline = time.monotonic() + WITHIN_S
    while counted.total() < shop.sent.total():
        assert time.monotonic() < deadline, (counted, errors)
        batch = Counter(record.key or b"" for record in count(session, shop, errors))
        try:
            session.commit()
        except SidecarRefused as refused:
            errors[f"commit: {refused.code}"] += 1
        else:
            counted += batch
    assert counted == shop.sent
    return errors


def count(session: SidecarClient, shop: PickyShop, errors: Counter[str]) -> list:
    records = session.poll(100, 100)
    for record in records:
        key = record.key or b""
        [old] = session.get(record.task, STORE, [key])
        session.put(record.task, STORE, {key: b"%d" % (int(old or 0) + 1)})
        value = bytes(2 * TOPIC_BYTES_MAX) if key == GUILTY else b"1"
        try:
            session.emit(record.task, shop.small, [key], [value])
        except SidecarRefused as refused:
            errors[f"emit: {refused.code}"] += 1
        session.emit(record.task, sink_of(session), [key], [b"1"])
    return records


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("on_error", ["dead_letter", "fail"])
def test_the_worker_goes_on_without_an_output_that_the_broker_refuses(
    shop: PickyShop, guarantee: str, on_error: str
) -> None:
    shop.begin(on_error, guarantee)
    shop.send(CUSTOMERS)
    with shop.connect() as session:
        errors = work_until_done(session, shop)
    assert shop.sidecars[0].error is None
    guilty = shop.sent[GUILTY]
    letters = shop.read_letters()
    if on_error == "fail":
        assert errors["commit: output_refused"] >= 1
        assert errors["emit: output_refused"] >= guilty
        assert letters == []
    else:
        assert errors["commit: commit_failed"] >= 1
        assert set(errors) == {"commit: commit_failed"}
        assert {(letter.record.topic, letter.record.key, letter.record.offset) for letter in letters} == {
            (shop.small, GUILTY, -1)
        }
        assert any(isinstance(event, RecordSetAsideEvent) for event in shop.sidecars[0].events)
    if guarantee == "exactly_once_v2":
        assert shop.committed() == shop.sent
        assert len(letters) == (0 if on_error == "fail" else guilty)
    else:
        assert shop.committed() >= shop.sent
