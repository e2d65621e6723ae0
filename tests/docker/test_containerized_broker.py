"""The integration tests again, against a broker in a container."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from tests.docker.images import KAFKA_IMAGE, ROOT

pytestmark = [pytest.mark.usefixtures("docker"), pytest.mark.timeout(480)]

# One suite of each room that uses a broker; all suites run on the embedded broker.
SUITES = (
    "tests/adapters/test_confluent_changelogs.py",
    "tests/adapters/test_confluent_transactions.py",
    "tests/insight/test_fetch.py",
    "tests/worker/test_group_on_a_broker.py",
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class KafkaContainer(DockerContainer):
    """A node, broker and controller, published on 127.0.0.1. The port is chosen first, so that it can be advertised."""

    def __init__(self, image: str) -> None:
        super().__init__(image)
        self.port = free_port()
        self.ports = {"9092/tcp": ("127.0.0.1", self.port)}  # with_bind_ports would publish on every address
        self.with_envs(
            KAFKA_NODE_ID="1",
            KAFKA_PROCESS_ROLES="broker,controller",
            KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
            KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
            # The broker speaks to itself, too (transactions do), and the published port is not inside the container.
            KAFKA_LISTENERS="HOST://:9092,BROKER://:19092,CONTROLLER://:9093",
            KAFKA_ADVERTISED_LISTENERS=f"HOST://127.0.0.1:{self.port},BROKER://localhost:19092",
            KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
            KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="HOST:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS="5",
            KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
            KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
            KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS="5",
            KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
            KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS="1000",
            KAFKA_AUTO_CREATE_TOPICS_ENABLE="false",  # as the embedded broker: a topic that was deleted stays away
            KAFKA_HEAP_OPTS="-Xmx512m",
        )
        started = LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(180).with_poll_interval(0.1)
        self.waiting_for(started)


@pytest.fixture(scope="module")
def broker_in_a_container() -> Iterator[str]:
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # it would pull an image; ``with`` cleans up
    with KafkaContainer(KAFKA_IMAGE) as running:
        yield f"127.0.0.1:{running.port}"


@pytest.mark.parametrize("suite", SUITES)
def test_the_integration_tests_pass_against_it(broker_in_a_container, suite):
    command = [sys.executable, "-m", "pytest", "-q", "-m", "broker", "-p", "no:cacheprovider", suite]
    settings = {"KSTREAMS_ASSIGN_TEST_BROKER": broker_in_a_container}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout[-3_000:]
    assert " passed" in done.stdout
