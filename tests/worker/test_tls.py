"""A member over TLS: both of its clients get the same settings. A broker that freezes is reported, and waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign import Config, Subtopology
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import connections, describes_groups
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.local import LocalBroker
from tests.worker.app import PARTITIONS, Running, count, send_words, until

PEM = Path(__file__).parent.with_name("tls.pem")
CLIENT = {"security.protocol": "SSL", "ssl.ca.location": str(PEM)}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def broker_with_tls(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    with LocalBroker(tls=PEM) as local_broker:
        yield local_broker


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_worker_counts_over_tls_and_its_group_is_described(
    broker_with_tls: LocalBroker, tmp_path: Path, guarantee: str
) -> None:
    servers, name = broker_with_tls.bootstrap_servers, guarantee.replace("_", "-")
    ClusterAdmin(servers, CLIENT).create_topics({name: PARTITIONS, f"{name}-counts": PARTITIONS}, PATIENCE_S)
    config = Config(
        application_id=name,
        bootstrap_servers=servers,
        state_dir=str(tmp_path),
        processing_guarantee=guarantee,
        client=CLIENT,
    )
    worker = Running(config, [Subtopology(process=count, sources=[name], stores=["totals"], sinks=[f"{name}-counts"])])
    worker.until_running(PARTITIONS)
    send_words(servers, name, [(b"word", b"x")] * 20, CLIENT)
    until(lambda: worker.worker.read("totals", b"word") == b"20", PATIENCE_S)
    with describes_groups(servers, CLIENT) as groups:
        described = groups.describe(name)
    assert described is not None
    assert len(described.members) == 1
    worker.stop()


def test_a_request_to_a_frozen_broker_fails_in_time(
    broker_with_tls: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.kill(broker_with_tls.pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as soon:
            soon.setattr(connections, "HANDSHAKE_S", 0.5)
            with (
                pytest.raises(BrokerUnavailable),
                describes_groups(broker_with_tls.bootstrap_servers, CLIENT, timeout_s=1),
            ):
                pytest.fail("the broker does not answer")
    finally:
        os.kill(broker_with_tls.pid, signal.SIGCONT)
    with describes_groups(broker_with_tls.bootstrap_servers, CLIENT) as groups:
        assert groups.describe("absent") is None
