"""Outputs that brokers refuse because they are not allowed: a topic without a right, a record that is not valid."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kstreams_assign import Config, Record, Subtopology, Task, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, TopicReader
from kstreams_assign.errors import RecordRefused
from kstreams_assign.events import RecordSetAsideEvent
from kstreams_assign.local import LocalBroker
from kstreams_assign.tasks.dead_letters import read_dead_letter
from kstreams_assign.topology.flows import OnErrorChoice
from kstreams_assign.worker import refused_outputs
from tests.worker.app import PATIENCE_S, Running, send_words, until

USER, OPERATOR = "orders-app", "operator"
PASSWORDS = {USER: "a word", OPERATOR: "another word"}
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{OPERATOR}",
    "allow.everyone.if.no.acl.found": "true",
}
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
INPUTS = 60


def client(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
    }


@pytest.fixture(scope="module")
def guarded(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    with LocalBroker(users=PASSWORDS, settings=RIGHTS) as local_broker:
        yield local_broker


class Shop:
    """Orders in, and three kinds of outputs: to ``-out``, ``-closed`` (no right) and ``-newest`` (compacted)."""

    def __init__(self, guarded: LocalBroker, name: str, folder: Path) -> None:
        self.servers, self.name, self.folder = guarded.bootstrap_servers, name, folder
        self.out, self.closed, self.newest, self.letters = (f"{name}-{x}" for x in ("out", "closed", "newest", "dead"))
        self.mine = client(OPERATOR)
        configs = {self.newest: {"cleanup.policy": "compact"}}
        topics = dict.fromkeys((name, self.out, self.closed, self.newest, self.letters), 1)
        ClusterAdmin(self.servers, self.mine).create_topics(topics, PATIENCE_S, configs=configs)
        self._admin = AdminClient({"bootstrap.servers": self.servers, **self.mine}, logger=logging.getLogger("rights"))

    def forbid_writes(self) -> None:
        denied = self._rule(AclBinding, AclOperation.WRITE, AclPermissionType.DENY)
        allowed = self._rule(AclBinding, AclOperation.ALL, AclPermissionType.ALLOW)
        for done in self._admin.create_acls([denied, allowed]).values():
            done.result(PATIENCE_S)

    def allow_writes(self) -> None:
        [done] = self._admin.delete_acls(
            [self._rule(AclBindingFilter, AclOperation.WRITE, AclPermissionType.DENY)]
        ).values()
        done.result(PATIENCE_S)

    def _rule(self, kind: Any, operation: AclOperation, permission: AclPermissionType) -> Any:
        pattern = ResourcePatternType.LITERAL
        return kind(ResourceType.TOPIC, self.closed, pattern, f"User:{USER}", "*", operation, permission)

    def send(self, values: Mapping[bytes, bytes]) -> None:
        send_words(self.servers, self.name, list(values.items()), self.mine)

    def start(self, guarantee: str, on_error: OnErrorChoice) -> Running:
        config = Config(
            application_id=self.name,
            bootstrap_servers=self.servers,
            state_dir=str(self.folder),
            processing_guarantee=guarantee,
            errors_dead_letter_queue_topic_name=self.letters,
            client=client(USER),
        )
        sinks = [self.out, self.closed, self.newest]
        return Running(config, [Subtopology(self.work, [self.name], ["totals"], sinks, on_error=on_error)])

    def work(self, task: Task, records: Sequence[Record]) -> None:
        """Count each key; the value says where its output goes."""
        totals = task.store("totals")
        for record in records:
            assert record.key is not None
            totals.put(record.key, b"%d" % (int(totals.get(record.key) or 0) + 1))
            if record.value == b"closed":
                task.emit(self.closed, record.key, b"v")
            elif record.value == b"no key":
                task.emit(self.newest, None, record.key)
            else:
                task.emit(self.newest, record.key, b"v")
                task.emit(self.out, record.key, b"v")

    def read(self, topic: str) -> list[Record]:
        """Return the records of a topic that a committed reader sees."""
        at = TopicPartition(topic, 0)
        with closing(TopicReader(self.servers, self.mine, {at: 0}, group_id="reads", read_committed=True)) as reader:
            records: list[Record] = []
            while True:
                arrived, ended = reader.read(1_000, 1.0)
                records += arrived
                if at in ended:
                    return records


@pytest.fixture
def shop(guarded: LocalBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    return Shop(guarded, re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:].strip("-"), tmp_path)


@GUARANTEES
def test_the_inputs_of_outputs_that_are_not_allowed_become_dead_letters(shop: Shop, guarantee: str) -> None:
    """Exactly once nothing else is lost or applied twice. At least once, failed commits leave their writes."""
    shop.forbid_writes()
    kinds = {7: b"closed", 20: b"no key", 21: b"closed", 50: b"no key"}
    orders = {b"order-%d" % number: kinds.get(number, b"good") for number in range(INPUTS)}
    guilty = {key for key, value in orders.items() if value != b"good"}
    shop.send(orders)
    worker = shop.start(guarantee, "dead_letter")
    until(lambda: {letter.key for letter in shop.read(shop.letters)} == guilty)
    until(lambda: {output.key for output in shop.read(shop.out)} == orders.keys() - guilty)
    worker.stop()
    assert worker.error is None
    letters = [read_dead_letter(letter) for letter in shop.read(shop.letters)]
    assert all(letter is not None and "RecordRefused" in letter.failure.exception for letter in letters)
    assert shop.read(shop.closed) == []
    assert {output.key for output in shop.read(shop.newest)} == orders.keys() - guilty
    if guarantee == "exactly_once_v2":
        assert len(letters) == len(guilty)
        assert Counter(output.key for output in shop.read(shop.out)) == Counter(orders.keys() - guilty)
        totals = {record.key: record.value for record in shop.read(f"{shop.name}-totals-changelog")}
        assert totals == dict.fromkeys(orders.keys() - guilty, b"1"), "each counts once, and the guilty never"


@GUARANTEES
def test_a_right_that_is_given_later_is_noticed_without_a_restart(
    shop: Shop, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_outputs, "FORBIDDEN_MS", 500)
    shop.forbid_writes()
    shop.send({b"first": b"closed"})
    worker = shop.start(guarantee, "skip")
    worker.until_event(RecordSetAsideEvent, response="skip")
    shop.allow_writes()
    sent = 0

    def arrives() -> bool:
        nonlocal sent
        sent += 1
        shop.send({b"later-%d" % sent: b"closed"})
        return bool(shop.read(shop.closed))

    until(arrives)
    worker.stop()
    assert worker.error is None


@GUARANTEES
def test_a_missing_right_ends_a_worker_that_sets_nothing_aside(shop: Shop, guarantee: str) -> None:
    shop.forbid_writes()
    shop.send({b"k": b"closed"})
    worker = shop.start(guarantee, "fail")
    error = worker.until_error()
    worker.join()
    assert isinstance(error, RecordRefused)
    assert error.forbidden
    assert re.search(rf"task 0_0: .*{shop.closed}.*TOPIC_AUTHORIZATION_FAILED.*allow this client to write", str(error))
