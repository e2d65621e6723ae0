"""One streams group (KIP-1071) of a real Java Kafka Streams application and our worker: no count is lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import LostEvent
from tests.java.repartition_app import RepartitionApp
from tests.worker.app import PATIENCE_S, Running
from tests.worker.streams_settings import set_group
from tests.worker.test_with_java import PARTITIONS, Mixed, mixed  # noqa: F401  # the fixture

STREAMS = {"group_protocol": "streams"}


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("first", ["java", "python"])
def test_either_language_joins_takes_tasks_and_gives_them_back(
    mixed: Mixed,  # noqa: F811
    guarantee: str,
    first: str,
) -> None:
    """Their topologies are the same to the coordinator, whichever declared it."""
    set_group(mixed.broker, mixed.name, heartbeat_interval_ms=500)
    settings = {**STREAMS, "processing_guarantee": guarantee}
    if first == "java":
        java = mixed.java(**settings)
        java.until_tasks(active=PARTITIONS)
        mixed.count_more()
        ours = mixed.python(**settings)
    else:
        ours = mixed.python(**settings)
        ours.until_running(PARTITIONS)
        mixed.count_more()
        java = mixed.java(**settings)
    ours.until_running(PARTITIONS // 2)
    java.until_tasks(active=PARTITIONS // 2)
    mixed.count_more()
    if first == "java":
        java.close()
        ours.until_running(PARTITIONS)
    else:
        ours.stop()
        java.until_tasks(active=PARTITIONS)
    mixed.count_more()
    assert not ours.reported(LostEvent)


def test_a_killed_java_member_is_replaced_and_comes_back(mixed: Mixed) -> None:  # noqa: F811
    """Exactly once: at least once, what it had not committed would be counted again."""
    set_group(mixed.broker, mixed.name, session_timeout_ms=6_000, heartbeat_interval_ms=500)
    settings = {**STREAMS, "processing_guarantee": "exactly_once_v2"}
    ours = mixed.python(**settings, session_timeout_ms=6_000)
    java = mixed.java(**settings)
    java.until_tasks(active=PARTITIONS // 2)
    mixed.count_more()
    java.kill()
    ours.until_running(PARTITIONS)
    mixed.count_more()
    again = mixed.java(**settings)
    again.until_tasks(active=PARTITIONS // 2)
    ours.until_running(PARTITIONS // 2)
    mixed.count_more()


def joins(prefix: str) -> Subtopology:
    """As ``RepartitionApp.java`` has it."""

    def nothing(task: Task, records: Sequence[Record]) -> None:
        """Only the topology counts."""

    prices, purchases, clicks, users = (f"{prefix}-{name}" for name in ("prices", "purchases", "clicks", "users"))
    return Subtopology(
        nothing,
        sources=[prices, purchases, clicks, users],
        copartitioned=[[clicks, users], [prices, purchases]],
        stores=[Store("prices", source=prices), Store("users", source=users)],
        sinks=[f"{prefix}-out"],
    )


@pytest.mark.usefixtures("java_peer")
@pytest.mark.parametrize("first", ["java", "python"])
def test_a_member_of_each_language_runs_tasks_of_the_same_joins(broker: str, tmp_path: Path, first: str) -> None:
    """The brokers compare the order of joined topics, which is that of Java's hash sets."""
    name = f"joins-{first}-first"
    ours = joins(name)
    ClusterAdmin(broker).create_topics(dict.fromkeys((*ours.sources, *ours.sinks), 2), PATIENCE_S)
    set_group(broker, name, heartbeat_interval_ms=500)
    config = Config(
        application_id=name, bootstrap_servers=broker, state_dir=str(tmp_path / "python"), group_protocol="streams"
    )
    with ExitStack() as ends:

        def start_java() -> RepartitionApp:
            app = RepartitionApp(broker, name, tmp_path / "java", "joins", name, {"group.protocol": "streams"})
            ends.callback(app.close)
            return app

        def start_python() -> Running:
            worker = Running(config, [ours])
            ends.callback(worker.stop)
            return worker

        if first == "java":
            java = start_java()
            java.until_tasks(active=2)
            python = start_python()
        else:
            python = start_python()
            python.until_running(2)
            java = start_java()
        java.until_tasks(active=1)
        python.until_running(1)
