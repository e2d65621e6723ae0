"""The ``client`` settings under librdkafka's names, handed to kafka-python under its own."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.cluster import ClusterMetadata
from kafka.protocol.metadata import MetadataResponse

from kstreams_assign.adapters.kafka_python import connections, describes_groups, kafka_python_settings
from kstreams_assign.adapters.kafka_python.settings import _NAMES, _SOCKET
from kstreams_assign.client_settings import refuse_settings
from kstreams_assign.client_settings.names import PROPERTIES
from kstreams_assign.client_settings.rules import _FIXED, _REFUSED, _SECURITY, MEMBERSHIP_ANSWER_MS, MEMBERSHIP_SECURITY
from kstreams_assign.errors import BrokerUnavailable, ConfigError

PATIENCE_S = 60.0
PEM = Path(__file__).parent.with_name("tls.pem")
NODELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

ONLY_LIBRDKAFKA = frozenset(
    {
        # how it handles records
        "message.max.bytes",
        "message.copy.max.bytes",
        "max.in.flight.requests.per.connection",
        # how it reads metadata
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms",
        "topic.blacklist",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
        # how it connects
        "broker.address.family",
        "broker.address.ttl",
        "reconnect.backoff.jitter.ms",
        "socket.blocking.max.ms",
        "socket.max.fails",
        # how long it waits for an answer, and when it asks again: the membership has times of its own
        "socket.timeout.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        # how it adapts to old brokers
        "api.version.fallback.ms",
        "api.version.request.timeout.ms",
        "broker.version.fallback",
        # what it reports, and its process
        "debug",
        "enable.metrics.push",
        "enable.random.seed",
        "internal.termination.signal",
        "log.connection.close",
        "log.thread.name",
        "log_level",
        "plugin.library.paths",
    }
)
"""What concerns all clients of librdkafka and is not handed to kafka-python, which has no counterpart or must not."""


def test_what_a_cluster_with_passwords_needs_is_translated():
    client = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "me",
        "sasl.password": "secret",
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "queued.min.messages": "1000",
    }
    assert kafka_python_settings(client) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
        "reconnect_backoff_max_ms": 1_000,
        "socket_options": [NODELAY],
    }


def test_connecting_is_tried_again_as_often_as_java_does_unless_told_otherwise():
    assert kafka_python_settings({})["reconnect_backoff_max_ms"] == 1_000
    assert kafka_python_settings({"reconnect.backoff.max.ms": "7"})["reconnect_backoff_max_ms"] == 7


def consumer_of(client):
    """kafka-python's consumer with these settings; it contacts no broker, as it is given a broker's version."""
    return closing(KafkaConsumer(bootstrap_servers="127.0.0.1:1", api_version=(3, 9), **kafka_python_settings(client)))


@pytest.mark.parametrize(("asked_ms", "given_ms"), [("30001", 30_001), ("540000", 540_000), ("0", 2**31 - 1)])
def test_a_connection_is_closed_after_the_time_without_use_and_never_after_0(asked_ms, given_ms):
    refuse_settings({"connections.max.idle.ms": asked_ms})
    with consumer_of({"connections.max.idle.ms": asked_ms}) as consumer:
        assert consumer._manager.config["connections_max_idle_ms"] == given_ms


def test_a_time_without_use_that_kafka_python_would_not_take_is_refused_by_its_name():
    assert KafkaConsumer.DEFAULT_CONFIG["request_timeout_ms"] == MEMBERSHIP_ANSWER_MS
    with pytest.raises(ConfigError, match=r"client: connections\.max\.idle\.ms = '30000': must be 0 or above 30000"):
        refuse_settings({"connections.max.idle.ms": "30000"})
    refuse_settings({"connections.max.idle.ms": "30000"}, with_kafka_python=False)


def test_addresses_are_looked_up_as_asked_for():
    with consumer_of({"client.dns.lookup": "RESOLVE_CANONICAL_bootstrap_servers_only"}) as consumer:
        assert consumer._manager.config["client_dns_lookup"] == "resolve_canonical_bootstrap_servers_only"


def test_an_answer_may_be_as_long_as_asked_for():
    with consumer_of({"receive.message.max.bytes": "200000000"}) as consumer:
        assert consumer._manager.config["receive_message_max_bytes"] == 200_000_000


@pytest.mark.parametrize(
    ("client", "options"),
    [
        ({}, [NODELAY]),
        ({"socket.nagle.disable": "false"}, []),
        ({"socket.keepalive.enable": "true"}, [NODELAY, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]),
        ({"socket.send.buffer.bytes": "5000"}, [NODELAY, (socket.SOL_SOCKET, socket.SO_SNDBUF, 5_000)]),
        ({"socket.receive.buffer.bytes": "6000"}, [NODELAY, (socket.SOL_SOCKET, socket.SO_RCVBUF, 6_000)]),
        ({"socket.receive.buffer.bytes": "0", "socket.keepalive.enable": "F"}, [NODELAY]),
    ],
)
def test_sockets_are_made_as_asked_for(client, options):
    with consumer_of(client) as consumer:
        assert consumer._manager.config["socket_options"] == options


def test_connecting_takes_no_longer_than_asked_for_however_often_it_fails():
    with consumer_of({"socket.connection.setup.timeout.ms": "2000"}) as consumer:
        manager = consumer._manager
        assert manager.socket_connection_setup_timeout_ms("n") == 2_000
        for _ in range(5):
            manager.update_backoff("n")
        assert manager.socket_connection_setup_timeout_ms("n") <= 2_000 * 1.2  # each time differs by up to a fifth


def test_a_tls_handshake_takes_no_longer_than_asked_for(monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_S", 2 * PATIENCE_S)
    client = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(PEM),
        "socket.connection.setup.timeout.ms": "200",
    }
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BrokerUnavailable, match="connect"), describes_groups(at, client, timeout_s=1):
            pass
    assert time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize("off", ["-1", "0"])
def test_topics_that_are_not_to_be_refreshed_are_not_asked_for_without_a_pause(off):
    settings = kafka_python_settings({"topic.metadata.refresh.interval.ms": off})
    cluster = ClusterMetadata(metadata_max_age_ms=settings["metadata_max_age_ms"])
    broker = MetadataResponse.MetadataResponseBroker(version=1, node_id=1, host="h", port=1, rack=None)
    cluster.update_metadata(MetadataResponse(version=1, brokers=[broker], controller_id=1, topics=[]))
    assert cluster.ttl() > 24 * 3_600_000
    assert kafka_python_settings({"topic.metadata.refresh.interval.ms": "1"})["metadata_max_age_ms"] == 1


def test_a_setting_of_all_clients_is_handed_over_or_refused_or_of_librdkafka_alone():
    handed_over = {*_NAMES, *_SOCKET, "reconnect.backoff.max.ms"}
    refused = {*_REFUSED, *_FIXED, *(name for name in PROPERTIES if name.startswith(_SECURITY))} - {
        *MEMBERSHIP_SECURITY
    }
    assert not handed_over & refused | handed_over & ONLY_LIBRDKAFKA | refused & ONLY_LIBRDKAFKA
    of_all = {its.name for its in PROPERTIES.values() if its.clients == "*"}
    assert of_all <= handed_over | refused | ONLY_LIBRDKAFKA
    assert handed_over | ONLY_LIBRDKAFKA <= of_all


def test_kafka_python_knows_every_name_in_the_table():
    assert {name for name, _ in _NAMES.values()} <= KafkaAdminClient.DEFAULT_CONFIG.keys()


def test_security_that_cannot_be_handed_over_is_refused():
    for name in ("ssl.keystore.location", "sasl.oauthbearer.config", "https.ca.location"):
        with pytest.raises(
            ConfigError, match=rf"client: {name}.*: the client that holds the membership has no counter"
        ):
            refuse_settings({name: "k"})


def test_security_that_is_not_refused_is_handed_over():
    assert set(MEMBERSHIP_SECURITY) == {name for name in _NAMES if name.startswith(("sasl.", "ssl."))}
