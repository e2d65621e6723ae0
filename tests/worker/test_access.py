"""Brokers that ask clients who they are: the rights that a member needs, and the errors of a refused one."""

from __future__ import annotations

import gc
import logging
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
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

from kstreams_assign import (
    Config,
    GlobalTable,
    GroupMember,
    Record,
    Subtopology,
    SubtopologyShape,
    Task,
    TopicPartition,
)
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.allowed_values import GROUP_PROTOCOLS
from kstreams_assign.cli import app as command_line
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, RecordRefused
from kstreams_assign.events import (
    AwaitedTasksEvent,
    EarlyProbingOffEvent,
    LookupFailedEvent,
    PurgeFailedEvent,
    RecordSetAsideEvent,
    WarmingUpEvent,
    WarmJoinAloneEvent,
    WarmLeaveOffEvent,
    WarningsEvent,
)
from kstreams_assign.local import LocalBroker
from tests.conftest import SHARED
from tests.worker.app import PARTITIONS, PATIENCE_S, Running, count, send_words, until

TESTS = Path(__file__).parent.parent
GUIDE = TESTS.with_name("docs") / "how-to" / "secure-brokers.md"
PEM = TESTS / "tls.pem"
OTHER_PEM = PEM.with_name("other_tls.pem")
ME, PASSWORD = "orders-app", "a word that no log may show"
USERS = {"operator": "all may", ME: PASSWORD, "least": "the first four", "all": "and the rest"}
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


TOO_LARGE = bytes(2_000_000)
WITHOUT_TLS = client(security_protocol="SASL_PLAINTEXT", ssl_ca_location="")


@pytest.fixture(scope="module")
def asking(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    """A broker that asks clients who they are, and lets everyone do everything."""
    with LocalBroker(users=USERS, settings=SHARED) as local_broker:
        yield local_broker


@pytest.fixture(scope="module")
def guarded(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    with LocalBroker(tls=PEM, users=USERS, settings={**RIGHTS, **SHARED}) as local_broker:
        yield local_broker


class Right(NamedTuple):
    """A row of the guide's table."""

    resource: str
    name: str
    operations: str
    purpose: str


def the_guides() -> list[Right]:
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    begins = lines.index("| Resource | Name | Operations | For |")
    rows = [line.strip("|").split("|") for line in takewhile(bool, lines[begins:]) if line.startswith("| ")]
    rights = [Right(*(cell.strip().strip("`") for cell in row)) for row in rows[1:]]
    assert len(rights) == 13
    return rights


class Rules:
    """Kafka's access rules, set by the operator."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient(
            {"bootstrap.servers": servers, **client("operator")}, logger=logging.getLogger("rules")
        )

    def allow(self, user: str, right: Right, application: str, inputs: str) -> None:
        name = right.name.replace("<application_id>", application)
        name = {
            "its inputs": inputs,
            "its outputs": f"{inputs}-out",
            "its global tables": f"{inputs}-names",
        }.get(name, name)
        kind = ResourceType[right.resource.upper().replace(" ", "_")]
        pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
        rules = [
            AclBinding(
                kind,
                name.rstrip("*"),
                pattern,
                f"User:{user}",
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


def end_with_an_output_that_is_too_large(worker: Running, *, sets_aside: bool) -> None:
    if sets_aside:
        worker.until_event(RecordSetAsideEvent)
        worker.stop()
    else:
        assert isinstance(worker.until_error(), RecordRefused)
        worker.join()


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
@pytest.mark.parametrize(("user", "guarantee"), [("least", "at_least_once"), ("all", "exactly_once_v2")])
def test_the_rights_that_the_guide_names_suffice(
    guarded: LocalBroker, tmp_path: Path, user: str, guarantee: str, protocol: str
) -> None:
    least, mine = user == "least", client(user)
    servers, name = guarded.bootstrap_servers, f"{guarantee.replace('_', '-')}-{protocol}"
    lines = f"lines-{name}"
    operator, rules = client("operator"), Rules(servers)
    admin = ClusterAdmin(servers, operator)
    table = f"{lines}-names"
    settings = {table: {"cleanup.policy": "compact"}}
    admin.create_topics({lines: PARTITIONS, f"{lines}-out": PARTITIONS, table: 1}, PATIENCE_S, configs=settings)
    for right in the_guides():
        if not least or right.purpose.startswith("every member"):
            rules.allow(user, right, name, lines)
    config = Config(
        application_id=name,
        bootstrap_servers=servers,
        state_dir=str(tmp_path),
        processing_guarantee=guarantee,
        group_protocol=protocol,
        client=mine,
        repartition_purge_interval_ms=100,
    )

    def tally(task: Task, records: Sequence[Record]) -> None:
        totals = task.store("totals")
        for record in records:
            assert record.key is not None
            totals.put(record.key, b"%d" % (int(totals.get(record.key) or b"0") + 1))
            assert task.global_table("names").get(record.key) is None
            task.emit(f"{lines}-out", record.key, TOO_LARGE if record.key == b"large" else totals.get(record.key))

    def start(folder: Path) -> Running:
        return Running(
            replace(config, state_dir=str(folder)),
            [
                Subtopology(process=words, sources=[lines], sinks=["words"]),
                Subtopology(
                    process=tally,
                    repartition_sources=["words"],
                    stores=["totals"],
                    sinks=[f"{lines}-out"],
                    on_error="skip",
                ),
            ],
            global_tables=[GlobalTable("names", topic=table)],
        )

    worker = start(tmp_path / "first")
    worker.until_running(2 * PARTITIONS)
    send_words(servers, lines, [(None, b"word")] * 20, operator)
    between = [TopicPartition(f"{name}-words-repartition", number) for number in range(PARTITIONS)]
    until(lambda: worker.worker.read("totals", b"word") == b"20")
    if least:
        worker.until_event(PurgeFailedEvent)
    else:
        until(lambda: any(start for start, _ in admin.bounds(between, PATIENCE_S).values()))
    result = CliRunner().invoke(
        command_line, ["inspect", name, "-b", servers, *as_arguments(mine)], catch_exceptions=False
    )
    if protocol == "streams":
        second = start(tmp_path / "second")
        second.until_event(AwaitedTasksEvent)
        second.stop()
        assert second.reported(WarmingUpEvent)
        assert second.reported(WarmJoinAloneEvent) == []
    send_words(servers, lines, [(None, b"large")], operator)
    end_with_an_output_that_is_too_large(worker, sets_aside=not least)
    assert result.exit_code == 0, result.output
    assert worker.reported(EarlyProbingOffEvent) == []
    assert worker.reported(WarmLeaveOffEvent) == []
    off = {event.what for event in worker.reported(LookupFailedEvent)}
    missed = {"settings of changelogs", "settings of global tables' topics", f"max.message.bytes of {lines}-out"}
    if protocol == "classic":  # in a streams group no member leads
        missed.add("max.message.bytes of __consumer_offsets")
    assert off == (missed if least else set())
    warned = [warning for event in worker.reported(WarningsEvent) for warning in event.warnings]
    assert any("streams.session.timeout.ms of the group is not known" in each for each in warned) == (
        least and protocol == "streams"
    )


@pytest.mark.parametrize(
    ("settings", "setting_text"),
    [
        ({"sasl_password": "wrong-word"}, "sasl.username = 'orders-app', sasl.password (its value is not shown): "),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "sasl.mechanism = 'SCRAM-SHA-256'"),
        ({"ssl_ca_location": str(OTHER_PEM)}, f"ssl.ca.location = '{OTHER_PEM}'"),
    ],
)
def test_a_refused_client_fails_at_once_with_the_setting_to_check(
    guarded: LocalBroker, tmp_path: Path, settings: Mapping[str, str], setting_text: str
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
        assert setting_text in text
        assert refused["sasl.password"] not in text


def test_a_refused_group_member_gets_the_same_error(guarded: LocalBroker) -> None:
    config = Config(
        application_id="refused", bootstrap_servers=guarded.bootstrap_servers, client=client(sasl_password="wrong-word")
    )
    with pytest.raises(ConfigError, match=r"sasl\.password \(its value is not shown\): .* refused it"):
        GroupMember(config, [SubtopologyShape(("nothing",))], uuid4())


def test_a_client_with_another_protocol_is_asked_to_check_it(guarded: LocalBroker) -> None:
    with pytest.raises(BrokerUnavailable, match=r"check .* the brokers speak security\.protocol = 'PLAINTEXT'"):
        ClusterAdmin(guarded.bootstrap_servers).reach(1.0)


def test_a_group_that_the_user_may_not_describe_is_not_called_absent(guarded: LocalBroker) -> None:
    command = ["migrate", "hidden", "--to", "streams", "-b", guarded.bootstrap_servers, *as_arguments(client())]
    answer = CliRunner().invoke(command_line, command)
    assert isinstance(answer.exception, BrokerError)
    assert "describe group hidden: " in str(answer.exception)
    assert "GroupAuthorizationFailed" in str(answer.exception)
    assert answer.output == ""


def test_dead_letters_needs_the_rights_that_the_guide_names_and_says_which_it_lacks(guarded: LocalBroker) -> None:
    row = "READ and DESCRIBE on the dead-letter topic; DESCRIBE on the group `<application_id>-dead-letters`"
    assert f"| `dead-letters` | {row} |" in GUIDE.read_text(encoding="utf-8").splitlines()
    servers, rules, letters = guarded.bootstrap_servers, Rules(guarded.bootstrap_servers), "shop-dead-letters"
    operator = client("operator")
    ClusterAdmin(servers, operator).create_topics({letters: 1}, PATIENCE_S)
    send_words(servers, letters, [(None, b"no letter")], operator)
    rules.allow(ME, Right("transactional id", letters, "WRITE, DESCRIBE", "--resend"), "", "")
    rules.allow(ME, Right("topic", letters, "READ, DESCRIBE", ""), "", "")
    until(lambda: letters in ClusterAdmin(servers, client()).topics(PATIENCE_S))
    command = ["dead-letters", "shop", "-b", servers, *as_arguments(client())]
    for option in ([], ["--all"], ["--resend"]):
        answer = CliRunner().invoke(command_line, [*command, *option])
        assert isinstance(answer.exception, BrokerError)
        assert not isinstance(answer.exception, BrokerUnavailable), "the reason, at once"
        assert "GROUP_AUTHORIZATION_FAILED" in str(answer.exception)
    rules.allow(ME, Right("group", letters, "DESCRIBE", ""), "", "")
    until(lambda: CliRunner().invoke(command_line, command).stderr.endswith(f"\n0 dead letters in {letters}\n"))


@pytest.fixture(scope="module")
def wary(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    """A broker that requires a certificate of its clients, too."""
    with LocalBroker(
        tls=PEM, users=USERS, settings={"listener.name.sasl_ssl.ssl.client.auth": "required"}
    ) as local_broker:
        yield local_broker


@pytest.mark.parametrize(
    "mine",
    [
        {},
        {"ssl.certificate.location": str(OTHER_PEM), "ssl.key.location": str(OTHER_PEM)},
    ],
)
def test_a_missing_or_wrong_certificate_is_reported(wary: LocalBroker, mine: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"client: security\.protocol = 'SASL_SSL', ssl\.ca.* refused it: .* alert"):
        ClusterAdmin(wary.bootstrap_servers, {**client(), **mine}).reach(20.0)


METADATA, SIGN_IN = 3, 17  # ApiKeys


class Door(socketserver.ThreadingTCPServer):
    """Stands before a broker; hangs up on a client that sends one kind of request, as a restarting broker does."""

    daemon_threads = True

    def __init__(self, hangs_up_at: int) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.hangs_up_at = hangs_up_at
        self.port = int(self.server_address[1])
        self.servers = ""
        self.lets_pass, self.cuts, self.asked = 0, 0, 0

    @contextmanager
    def opened(self, servers: str) -> Iterator[None]:
        self.servers = servers
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        with self:
            yield
            self.shutdown()

    def cuts_at(self, request: bytes) -> bool:
        if int.from_bytes(request[4:6]) != self.hangs_up_at:
            return False
        self.asked += 1
        return self.lets_pass < self.asked <= self.lets_pass + self.cuts


class Passing(socketserver.BaseRequestHandler):
    """One connection: a request, an answer, the next request."""

    def handle(self) -> None:
        door = self.server
        assert isinstance(door, Door)
        host, port = door.servers.split(":")
        with socket.create_connection((host, int(port))) as broker_side:
            while (request := frame(self.request)) and not door.cuts_at(request):
                broker_side.sendall(request)
                self.request.sendall(frame(broker_side))


def frame(connection: socket.socket) -> bytes:
    """Return the next frame of Kafka's protocol, with its size before it."""
    size = connection.recv(4, socket.MSG_WAITALL)
    return size + connection.recv(int.from_bytes(size), socket.MSG_WAITALL)


def test_a_broker_that_disconnects_during_authentication_has_not_refused_the_client(asking: LocalBroker) -> None:
    door = Door(SIGN_IN)
    door.cuts = 3
    with door.opened(asking.bootstrap_servers):
        ClusterAdmin(f"127.0.0.1:{door.port}", WITHOUT_TLS).reach(PATIENCE_S)
    assert door.asked > door.cuts


def test_a_connection_lost_at_its_first_request_is_made_again(broker: str) -> None:  # noqa: ARG001  # the part
    door = Door(METADATA)
    with (
        LocalBroker(settings={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{door.port}"}) as own,
        door.opened(own.bootstrap_servers),
    ):
        ClusterAdmin(f"127.0.0.1:{door.port}").reach(PATIENCE_S)
        asks = door.asked
        assert asks >= 2, "librdkafka asks for itself, and then for us"
        door.cuts = 1
        for door.lets_pass in range(asks):
            door.asked = 0
            ClusterAdmin(f"127.0.0.1:{door.port}").reach(PATIENCE_S)


def test_a_client_that_is_dropped_leaves_no_thread_behind(asking: LocalBroker) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    ClusterAdmin(asking.bootstrap_servers, WITHOUT_TLS).reach(PATIENCE_S)
    before = threads()
    gc.disable()
    try:
        for _ in range(3):
            ClusterAdmin(asking.bootstrap_servers, WITHOUT_TLS).reach(PATIENCE_S)
        until(lambda: threads() <= before)
    finally:
        gc.enable()


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
    config = Config(application_id="a", bootstrap_servers=servers, state_dir=str(tmp_path), client=WITHOUT_TLS)
    worker = Running(config, [Subtopology(process=count, sources=["lines"], stores=["totals"], sinks=["lines-counts"])])
    worker.until_running(1)
    send_words(servers, "lines", [(b"word", b"")], operator)
    until(lambda: worker.worker.read("totals", b"word") == b"1")
    change("another")
    asking.restart()
    send_words(servers, "lines", [(b"word", b"")], operator)
    with pytest.raises(ConfigError):
        ClusterAdmin(servers, WITHOUT_TLS).reach(PATIENCE_S)
    assert worker.worker.read("totals", b"word") == b"1"
    change(PASSWORD)
    until(lambda: worker.worker.read("totals", b"word") == b"2")
    worker.stop()
    assert worker.error is None


def as_arguments(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--client", f"{key}={value}")]
