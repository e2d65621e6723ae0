"""A group id that plain consumers of KIP-848 have used: what a worker and ``migrate`` say of it, and the way out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer

from kstreams_assign.errors import ConfigError
from kstreams_assign.insight.migrate import Asked, look
from tests.adapters.confluent_cluster import until
from tests.worker.app import PARTITIONS, App
from tests.worker.test_streams_group_on_a_broker import STREAMS, WORDS


def way(app: App, to: str) -> tuple[str, ...]:
    return look(Asked(app.name, to, app.broker, None, {}, 30.0))[1].way


def test_an_empty_group_of_consumers_takes_streams_members_after_a_start_as_classic(
    broker: str, tmp_path: Path
) -> None:
    app = App(broker, "after-consumers", tmp_path)
    consumes = {"bootstrap.servers": broker, "group.id": app.name, "group.protocol": "consumer"}
    try:
        with closing(Consumer(consumes)) as consumer:
            consumer.subscribe([app.name])
            until(lambda: consumer.poll(0.1), lambda _: bool(consumer.assignment()))
            members = ("the group is of the type consumer: its members are no members of Kafka Streams",)
            assert way(app, "classic") == way(app, "streams") == members
        until(lambda: way(app, "classic"), lambda texts: texts == ())
        (start_classic,) = way(app, "streams")
        assert 'start one process once with group_protocol = "classic"' in start_classic

        error = app.start(1, **STREAMS).until_error()
        assert isinstance(error, ConfigError)
        assert 'if it has none, start once with group_protocol = "classic"' in str(error)
        between = app.start(1, **{**STREAMS, "group_protocol": "classic"})
        between.until_running(PARTITIONS)
        between.stop()
        assert way(app, "streams") == ()
        app.start(1, **STREAMS).until_running(PARTITIONS)
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()
