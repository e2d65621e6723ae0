"""Outages that end: a TLS file that is away for a moment, and brokers that come back under other addresses."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net import KafkaNetSocket
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataResponse

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient, kafka_python_settings, streams_coordinator
from kstreams_assign.adapters.kafka_python.connections import PunctualTransport
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.local import LocalBroker
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic
from tests.adapters.test_kafka_python_join_results import Protocol, until
from tests.conftest import SHARED

PEM = Path(__file__).parent.with_name("tls.pem")
BOOTSTRAP = "bootstrap-0"


@pytest.fixture
def loop() -> Iterator[NetworkSelector]:
    loop = NetworkSelector()
    yield loop
    loop.close()


@pytest.fixture
def address() -> Iterator[str]:
    """Of a server whose operating system accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def connect(loop: NetworkSelector, address: str, **settings: Any) -> None:
    manager = KafkaConnectionManager(loop, bootstrap_servers=[address], **settings)

    async def connected() -> None:
        await manager.get_connection(BOOTSTRAP)

    try:
        manager.run(connected)
    finally:
        manager.close()


@pytest.mark.parametrize("damage", ["away", "damaged"])
def test_a_tls_file_that_cannot_be_read_fails_the_connection_and_leaves_no_socket_open(
    loop: NetworkSelector, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    made, make, ca = [], KafkaNetSocket.socket, tmp_path / "ca.pem"

    def made_known(self: KafkaNetSocket, *arguments: Any) -> socket.socket:
        made.append(make(self, *arguments))
        return made[-1]

    if damage == "damaged":
        ca.write_text("half a file")
    monkeypatch.setattr(KafkaNetSocket, "socket", made_known)
    with pytest.raises(KafkaConnectionError, match=str(ca)):
        connect(loop, address, security_protocol="SSL", ssl_cafile=str(ca))
    assert [each.fileno() for each in made] == [-1]


def test_an_error_that_is_not_kafkas_fails_the_connection(
    loop: NetworkSelector, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object) -> None:
        raise OSError("the ticket cache is away")

    monkeypatch.setattr(KafkaConnection, "_get_api_versions", fail)
    with pytest.raises(KafkaConnectionError, match="OSError: the ticket cache is away"):
        connect(loop, address)


def test_a_member_outlives_a_ca_file_that_is_away_while_its_broker_restarts(
    broker: str,  # noqa: ARG001  # the part
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[None] = []
    make = PunctualTransport._build_ssl_context

    def noted(config: Any) -> Any:
        tries.append(None)
        return make(config)

    ca, away = tmp_path / "ca.pem", tmp_path / "away.pem"
    shutil.copy(PEM, ca)
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(ca)}
    with LocalBroker(tls=PEM, settings=SHARED) as restarting:
        client = GroupClient(
            group_id=f"g-{uuid4().hex}",
            bootstrap_servers=restarting.bootstrap_servers,
            topics=[new_topic(ClusterAdmin(restarting.bootstrap_servers, settings), 1)],
            protocol_name="stream",
            protocolist=Protocol(),
            settings={
                **kafka_python_settings(settings),
                "session_timeout_ms": 30_000,
                "heartbeat_interval_ms": 200,
                "max_poll_interval_ms": 60_000,
                "retry_backoff_ms": 20,
            },
        )
        until(lambda: client.join(1))
        monkeypatch.setattr(PunctualTransport, "_build_ssl_context", staticmethod(noted))
        ca.rename(away)
        restarting.restart()

        def beat_and(enough: bool) -> bool:
            client.beat(alive=True)
            return enough

        before = len(tries)
        until(lambda: beat_and(len(tries) > before + 2))
        away.rename(ca)
        client.request_rejoin()
        until(lambda: beat_and(client.join(1)))
        client.close(PATIENCE_S, leave=True)


@pytest.fixture
def manager(loop: NetworkSelector) -> Iterator[KafkaConnectionManager]:
    """It has asked its one bootstrap server and knows two brokers."""
    manager = KafkaConnectionManager(loop, bootstrap_servers=["127.0.0.1:1"], reconnect_backoff_ms=PATIENCE_S * 1000)
    manager.cluster._brokers = {
        number: MetadataResponse.MetadataResponseBroker(number, "127.0.0.1", number, None) for number in (2, 3)
    }
    yield manager
    manager.close()


def test_a_bootstrap_server_is_chosen_while_all_known_brokers_wait(manager: KafkaConnectionManager) -> None:
    assert manager.least_loaded_node() in {2, 3}
    manager.update_backoff(2)
    assert manager.least_loaded_node() == 3
    manager.update_backoff(3)
    assert manager.least_loaded_node() == BOOTSTRAP
    manager.update_backoff(BOOTSTRAP)
    assert manager.least_loaded_node() is None
    manager.reset_backoff(2)
    assert manager.least_loaded_node() == 2


def test_a_known_broker_that_asks_for_a_pause_is_not_evaded(manager: KafkaConnectionManager) -> None:
    manager.update_backoff(2)
    manager._conns[3] = KafkaConnection(manager._net, node_id=3)
    manager._conns[3].pause("throttle")
    assert manager.least_loaded_node() is None


@pytest.mark.usefixtures("broker")
def test_members_find_a_broker_that_comes_back_under_another_address(tmp_path: Path) -> None:
    """One of the ``bootstrap_servers`` is the new address; the only address that the brokers named is the old one."""
    group = f"g-{uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        new_port = reserved.getsockname()[1]
    with ExitStack() as opened:
        with LocalBroker(data_dir=tmp_path / "broker", settings=SHARED) as old:
            servers = f"{old.bootstrap_servers},127.0.0.1:{new_port}"
            streams = opened.enter_context(streams_coordinator(servers, timeout_s=5))
            client = GroupClient(
                group_id=group,
                bootstrap_servers=servers,
                topics=[new_topic(ClusterAdmin(old.bootstrap_servers), 1)],
                protocol_name="stream",
                protocolist=Protocol(),
                settings={
                    **kafka_python_settings({}),
                    "session_timeout_ms": 30_000,
                    "max_poll_interval_ms": 60_000,
                    "retry_backoff_ms": 20,
                },
            )
            until(lambda: client.join(1))
            assert streams.describe("absent", PATIENCE_S) is None
        client.request_rejoin()
        opened.enter_context(LocalBroker(data_dir=tmp_path / "broker", port=new_port, settings=SHARED))
        until(lambda: answered(lambda: client.join(1)))
        until(lambda: answered(lambda: streams.describe("absent", 5) is None))
        client.close(PATIENCE_S, leave=True)


def answered(ask: Callable[[], bool]) -> bool:
    with suppress(BrokerUnavailable):
        return ask()
    return False
