"""SASL and TLS under librdkafka's names, handed to kafka-python under its own."""

from __future__ import annotations

import pytest
from kafka.admin import KafkaAdminClient
from kafka.cluster import ClusterMetadata
from kafka.protocol.metadata import MetadataResponse

from kstreams_assign.adapters.kafka_python import kafka_python_settings
from kstreams_assign.adapters.kafka_python.settings import _NAMES
from kstreams_assign.client_settings import refuse_settings
from kstreams_assign.client_settings.rules import MEMBERSHIP_SECURITY
from kstreams_assign.errors import ConfigError


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
    }


def test_connecting_is_tried_again_as_often_as_java_does_unless_told_otherwise():
    assert kafka_python_settings({}) == {"reconnect_backoff_max_ms": 1_000}
    assert kafka_python_settings({"reconnect.backoff.max.ms": "7"}) == {"reconnect_backoff_max_ms": 7}


@pytest.mark.parametrize("off", ["-1", "0"])
def test_topics_that_are_not_to_be_refreshed_are_not_asked_for_without_a_pause(off):
    settings = kafka_python_settings({"topic.metadata.refresh.interval.ms": off})
    cluster = ClusterMetadata(metadata_max_age_ms=settings["metadata_max_age_ms"])
    broker = MetadataResponse.MetadataResponseBroker(version=1, node_id=1, host="h", port=1, rack=None)
    cluster.update_metadata(MetadataResponse(version=1, brokers=[broker], controller_id=1, topics=[]))
    assert cluster.ttl() > 24 * 3_600_000
    assert kafka_python_settings({"topic.metadata.refresh.interval.ms": "1"})["metadata_max_age_ms"] == 1


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
