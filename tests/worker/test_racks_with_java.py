"""Two brokers in two racks, a Java member in one and our worker in the other: tasks run in their records' rack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kstreams_assign import Config, Subtopology, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.events import DecisionEvent
from kstreams_assign.local import LocalBroker
from tests.adapters.confluent_cluster import closed_port, until
from tests.java.streams_app import StreamsApp
from tests.worker.app import Running

IN_RACK_B, IN_RACK_A = ["0_0", "0_1"], ["0_2", "0_3"]
REPLICAS = [[2], [2], [1], [1]]
"""The broker of each partition: 1 stands in rack a, 2 in rack b."""

RACK_AWARE = {"rack.aware.assignment.strategy": "min_traffic"}
NOT_FOLLOWED = "min_traffic is not followed"


class Racked:
    """One application whose first two partitions are in rack b and the others in rack a."""

    def __init__(self, brokers: str, name: str, folder: Path, ends: ExitStack) -> None:
        self.brokers, self.name, self.folder, self.ends = brokers, name, folder, ends
        self.topic = f"{name}-words"
        admin = AdminClient({"bootstrap.servers": brokers})
        made = admin.create_topics([NewTopic(self.topic, len(REPLICAS), replica_assignment=REPLICAS)])
        made[self.topic].result(60)
        until(lambda: ClusterAdmin(brokers).partition_counts([self.topic], 60), bool)

    def java(self, rack: str, **settings: str) -> StreamsApp:
        merged = {"client.rack": rack, **RACK_AWARE, **settings}
        app = StreamsApp(self.brokers, self.name, self.folder / "java", [self.topic], settings=merged)
        self.ends.callback(app.close)
        return app

    def python(self, rack: str | None, **settings: Any) -> Running:
        config = Config(
            application_id=self.name,
            bootstrap_servers=self.brokers,
            state_dir=str(self.folder / "python"),
            session_timeout_ms=30_000,
            application_server="127.0.0.1:7001",
            client_rack=rack,
            **settings,
        )
        stores = [f"totals-{self.topic}"]
        worker = Running(config, [Subtopology(lambda _task, _records: None, sources=[self.topic], stores=stores)])
        self.ends.callback(worker.stop)
        return worker


@pytest.fixture(scope="module")
def brokers(broker: str, java_peer: object) -> Iterator[str]:  # noqa: ARG001  # skips where they cannot run
    """Two brokers of one cluster, in the racks a and b."""
    with LocalBroker(settings={"broker.rack": "a"}) as first:
        assert first._ports is not None
        address = closed_port()
        joins = {
            "process.roles": "broker",
            "node.id": "2",
            "broker.rack": "b",
            "listeners": f"PLAINTEXT://{address}",
            "controller.quorum.voters": f"1@127.0.0.1:{first._ports.controller}",
        }
        with LocalBroker(port=int(address.rpartition(":")[2]), settings=joins) as second:
            admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
            until(lambda: set(admin.list_topics(timeout=60).brokers), lambda known: known == {1, 2})
            yield f"{first.bootstrap_servers},{second.bootstrap_servers}"


@pytest.fixture
def racked(brokers: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Racked]:
    with ExitStack() as ends:
        yield Racked(brokers, request.node.name.replace("_", "-"), tmp_path, ends)


def test_the_cluster_reports_the_racks_of_replicas(racked: Racked) -> None:
    racks_by_partition = ClusterAdmin(racked.brokers).replica_racks([racked.topic, "no-such-topic"], 60)
    racks = [frozenset("b"), frozenset("b"), frozenset("a"), frozenset("a")]
    assert racks_by_partition == {TopicPartition(racked.topic, number): rack for number, rack in enumerate(racks)}


def test_python_leads_and_gives_java_what_is_in_its_rack(racked: Racked) -> None:
    ours = racked.python("a", rack_aware_assignment_strategy="min_traffic")
    ours.until_running(4)
    java = racked.java("b")
    java.until(lambda _: java.running and java.active == IN_RACK_B)
    decision = ours.reported(DecisionEvent)[-1]
    assert decision.assignor == "high_availability"
    assert not [text for text in decision.warnings if NOT_FOLLOWED in text]


def test_java_leads_and_reads_our_rack(racked: Racked) -> None:
    java = racked.java("b")
    java.until_tasks(active=4)
    ours = racked.python("a")
    ours.until_running(2)
    java.until(lambda _: java.running and java.active == IN_RACK_B)
    assert not ours.reported(DecisionEvent), "Java leads"


def test_a_member_without_a_rack_is_named_and_racks_are_ignored(racked: Racked) -> None:
    ours = racked.python(None, rack_aware_assignment_strategy="min_traffic")
    ours.until_running(4)
    (warning,) = [text for text in ours.reported(DecisionEvent)[-1].warnings if NOT_FOLLOWED in text]
    assert "client.rack" in warning
