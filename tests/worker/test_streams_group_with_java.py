"""One streams group (KIP-1071) of a real Java Kafka Streams application and our worker: no count is lost or doubled."""

from __future__ import annotations

import pytest

from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import LostEvent
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
