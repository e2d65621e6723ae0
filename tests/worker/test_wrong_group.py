"""A worker that the group coordinator refuses: another application's group, or a setting outside the limits."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kafka import KafkaConsumer

from kstreams_assign.adapters.kafka_python.join_results import finish_joins
from kstreams_assign.errors import ConfigError
from tests.adapters.confluent_cluster import until
from tests.worker.app import PARTITIONS, App


def test_a_session_timeout_that_the_brokers_refuse_is_named_with_the_limits(broker: str, tmp_path: Path) -> None:
    app = App(broker, "long-sessions", tmp_path)
    error = app.start(1, session_timeout_ms=60_000_000).until_error()
    app.stop()
    assert isinstance(error, ConfigError)
    assert str(error) == (
        "session_timeout_ms = 60000000: the brokers refuse it; allowed is group.min.session.timeout.ms to "
        "group.max.session.timeout.ms of the brokers (6000 to 1800000 by default)"
    )


def test_a_group_of_plain_consumers_is_refused_with_the_setting_and_the_remedy(broker: str, tmp_path: Path) -> None:
    app = App(broker, "plain-consumers", tmp_path)
    with closing(KafkaConsumer(app.name, bootstrap_servers=broker, group_id=app.name)) as plain:
        finish_joins(plain._coordinator)  # or the group may wait a minute for a member without heartbeats
        until(lambda: plain.poll(timeout_ms=500), lambda _: bool(plain.assignment()))
        error = app.start(1).until_error()
        app.stop()
    assert isinstance(error, ConfigError)
    assert "application_id has members that share no protocol" in str(error)
    assert "an application_id of its own" in str(error)


def test_members_of_a_streams_group_are_named_with_the_command_that_says_how_to_change(
    broker: str, tmp_path: Path
) -> None:
    app = App(broker, "streams-beside-classic", tmp_path)
    app.start(1, group_protocol="streams").until_running(PARTITIONS)
    error = app.start(2).until_error()
    app.stop()
    assert isinstance(error, ConfigError)
    assert 'members of a streams group (group_protocol = "streams"), plain consumers, or members with' in str(error)
    assert "kstreams-assign migrate" in str(error)
