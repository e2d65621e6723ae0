"""Brokers that ask who is there: what a member must be allowed, and what one is told that is not let in."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner

from kstreams_assign import Config, GroupMember, Record, Subtopology, SubtopologyShape, Task, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.cli import app as command_line
from kstreams_assign.errors import BrokerUnavailable, ConfigError
from kstreams_assign.local import LocalBroker
from tests.worker.app import PARTITIONS, PATIENCE_S, Running, count

TESTS = Path(__file__).parent.parent
GUIDE = TESTS.with_name("docs") / "security.md"
PEM = TESTS / "tls.pem"
OTHER_PEM = PEM.with_name("other_tls.pem")
ME, PASSWORD = "orders-app", "a word that nobody may see"
USERS = {"operator": "all may", ME: PASSWORD}
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:operator",
}


def client(user: str = ME, **other: str) -> dict[str, str]:
    """What stands under ``client`` for this user; ``other`` with _ for dots."""
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(PEM),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": USERS[user],
        **{key.replace("_", "."): value for key, value in other.items()},
    }
    return {key: value for key, value in settings.items() if value}


WITHOUT_TLS = client(security_protocol="SASL_PLAINTEXT", ssl_ca_location="")


@pytest.fixture(scope="module")
def asking(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    """A broker that asks who is there, and lets everybody do all."""
    with LocalBroker(users=USERS) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    with LocalBroker(tls=PEM, users=USERS, settings=RIGHTS) as found:
        yield found


class Right(NamedTuple):
    """A row of the guide's table."""

    resource: str
    name: str
    operations: str
    purpose: str


def the_guides() -> list[Right]:
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    rights = [Right(*(cell.strip().strip("`") for cell in row)) for row in rows[1:]]
    assert len(rights) == 9
    return rights


class Rules:
    """Kafka's access rules, set by the operator."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient(
            {"bootstrap.servers": servers, **client("operator")}, logger=logging.getLogger("rules")
        )

    def allow(self, right: Right, application: str, inputs: str, outputs: str) -> None:
        name = right.name.replace("<application_id>", application)
        name = {"its inputs": inputs, "its outputs": outputs}.get(name, name)
        kind = ResourceType[right.resource.upper().replace(" ", "_")]
        pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
        rules = [
            AclBinding(
                kind,
                name.rstrip("*"),
                pattern,
                f"User:{ME}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in right.operations.split(", ")
        ]
        for made in self._admin.create_acls(rules).values():
            made.result(PATIENCE_S)


def words(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.emit("words", record.value, b"")


@pytest.mark.parametrize(("guarantee", "least"), [("at_least_once", True), ("exactly_once_v2", False)])
def test_the_rights_that_the_guide_names_suffice(
    guarded: LocalBroker, tmp_path: Path, guarantee: str, *, least: bool
) -> None:
    servers, name, lines = guarded.bootstrap_servers, guarantee.replace("_", "-"), f"lines-{guarantee}"
    operator, rules = client("operator"), Rules(servers)
    admin = ClusterAdmin(servers, operator)
    admin.create_topics({lines: PARTITIONS, f"{lines}-out": PARTITIONS}, PATIENCE_S)
    for right in the_guides():
        if not least or right.purpose.startswith("every member"):
            rules.allow(right, name, lines, f"{lines}-out")
    config = Config(
        application_id=name,
        bootstrap_servers=servers,
        state_dir=str(tmp_path),
        processing_guarantee=guarantee,
        client=client(),
        repartition_purge_interval_ms=100,
    )

    def tally(task: Task, records: Sequence[Record]) -> None:
        totals = task.store("totals")
        for record in records:
            assert record.key is not None
            totals.put(record.key, b"%d" % (int(totals.get(record.key) or b"0") + 1))
            task.emit(f"{lines}-out", record.key, totals.get(record.key))

    worker = Running(
        config,
        [
            Subtopology(process=words, sources=[lines], sinks=["words"]),
            Subtopology(process=tally, repartition_sources=["words"], stores=["totals"], sinks=[f"{lines}-out"]),
        ],
    )
    worker.until_running(2 * PARTITIONS)
    producer = RecordProducer(servers, operator, delivery_timeout_ms=60_000)
    for _ in range(20):
        producer.produce(lines, None, None, b"word")
    producer.flush(PATIENCE_S)
    producer.close()
    between = [TopicPartition(f"{name}-words-repartition", number) for number in range(PARTITIONS)]
    until(lambda: worker.worker.read("totals", b"word") == b"20")
    if least:
        worker.until_event("purge_failed")
    else:
        until(lambda: any(start for start, _ in admin.bounds(between, PATIENCE_S).values()))
    told = CliRunner().invoke(
        command_line, ["inspect", name, "-b", servers, *as_arguments(client())], catch_exceptions=False
    )
    worker.stop()
    assert told.exit_code == 0, told.output
    assert worker.named("early_probing_off") == []
    off = {event["what"] for event in worker.named("lookup_failed")}
    assert off == ({"max.message.bytes of __consumer_offsets", "settings of changelogs"} if least else set())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sasl_password": "no"}, "sasl.username = 'orders-app', sasl.password: "),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "sasl.mechanism = 'SCRAM-SHA-256'"),
        ({"ssl_ca_location": str(OTHER_PEM)}, f"ssl.ca.location = '{OTHER_PEM}'"),
    ],
)
def test_who_is_not_let_in_is_told_so_at_once_and_by_which_setting(
    guarded: LocalBroker, tmp_path: Path, settings: Mapping[str, str], told: str
) -> None:
    servers, refused = guarded.bootstrap_servers, client(**settings)
    config = Config(application_id="refused", bootstrap_servers=servers, state_dir=str(tmp_path), client=refused)
    worker = Running(config, [Subtopology(process=count, sources=["nothing"])])
    error = worker.until_error(timeout_s=20.0)  # it would wait half a minute for brokers that do not answer
    worker.join()
    assert isinstance(error, ConfigError)
    answer = CliRunner().invoke(command_line, ["inspect", "group", "-b", servers, *as_arguments(refused)])
    assert isinstance(answer.exception, ConfigError)
    for text in (str(error), str(answer.exception)):
        assert "security.protocol = 'SASL_SSL'" in text
        assert told in text
        assert refused["sasl.password"] not in text.replace("broker", "")


def test_a_membership_alone_is_told_so_too(guarded: LocalBroker) -> None:
    config = Config(
        application_id="refused", bootstrap_servers=guarded.bootstrap_servers, client=client(sasl_password="no")
    )
    with pytest.raises(ConfigError, match=r"sasl\.password: .* refused it"):
        GroupMember(config, [SubtopologyShape(("nothing",))], uuid4())


def test_who_speaks_another_protocol_is_asked_whether_it_is_the_right_one(guarded: LocalBroker) -> None:
    with pytest.raises(BrokerUnavailable, match=r"right, is security\.protocol = 'PLAINTEXT' .* what is spoken there"):
        ClusterAdmin(guarded.bootstrap_servers).reach(1.0)


def test_a_broker_that_goes_away_while_somebody_signs_in_has_refused_nobody(asking: LocalBroker) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as door:
        port = door.getsockname()[1]
        closed = threading.Thread(target=close_the_door_on_one, args=(door, asking.bootstrap_servers), daemon=True)
        closed.start()
        admin = ClusterAdmin(f"127.0.0.1:{port}", WITHOUT_TLS)
        with pytest.raises(BrokerUnavailable):
            admin.reach(3.0)
        closed.join(PATIENCE_S)
    assert not closed.is_alive()


def close_the_door_on_one(door: socket.socket, servers: str) -> None:
    """Pass on what one client and a broker say, up to the client's second word, the mechanism; listen no more."""
    host, port = servers.split(":")
    client_side, _ = door.accept()
    door.close()
    with client_side, socket.create_connection((host, int(port))) as broker_side:
        broker_side.sendall(frame(client_side))
        client_side.sendall(frame(broker_side))
        frame(client_side)


def frame(connection: socket.socket) -> bytes:
    """The next one of Kafka's protocol, with its size before it."""
    size = connection.recv(4, socket.MSG_WAITALL)
    return size + connection.recv(int.from_bytes(size), socket.MSG_WAITALL)


def test_a_worker_whose_password_is_changed_under_it_works_on_when_it_is_put_back(
    asking: LocalBroker, tmp_path: Path
) -> None:
    servers = asking.bootstrap_servers
    operator = {**WITHOUT_TLS, "sasl.username": "operator", "sasl.password": USERS["operator"]}
    passwords = AdminClient({"bootstrap.servers": servers, **operator}, logger=logging.getLogger("passwords"))

    def change(password: str) -> None:
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(ME, kind, password.encode())
        for done in passwords.alter_user_scram_credentials([wanted]).values():
            done.result(PATIENCE_S)

    ClusterAdmin(servers, operator).create_topics({"lines": 1, "lines-counts": 1}, PATIENCE_S)
    producer = RecordProducer(servers, operator, delivery_timeout_ms=60_000)

    def send() -> None:
        producer.produce("lines", 0, b"word", b"")
        producer.flush(PATIENCE_S)

    config = Config(application_id="a", bootstrap_servers=servers, state_dir=str(tmp_path), client=WITHOUT_TLS)
    worker = Running(config, [Subtopology(process=count, sources=["lines"], stores=["totals"], sinks=["lines-counts"])])
    worker.until_running(1)
    send()
    until(lambda: worker.worker.read("totals", b"word") == b"1")
    change("another")
    asking.restart()
    send()
    with pytest.raises(ConfigError):
        ClusterAdmin(servers, WITHOUT_TLS).reach(PATIENCE_S)
    assert worker.worker.read("totals", b"word") == b"1"
    change(PASSWORD)
    until(lambda: worker.worker.read("totals", b"word") == b"2")
    producer.close()
    worker.stop()
    assert worker.error is None


def until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def as_arguments(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--client", f"{key}={value}")]
