"""A streams group that may have one member: it can come back, and another one is refused (Kafka 4.3.1)."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.errors import ConfigError
from kstreams_assign.events import LostEvent, RestartAnnouncedEvent
from kstreams_assign.local import LocalBroker
from tests.worker.app import PARTITIONS, App
from tests.worker.streams_settings import set_group
from tests.worker.test_streams_group_on_a_broker import STREAMS, WORDS


def test_a_member_of_a_full_group_comes_back_and_another_process_is_refused(tmp_path: Path) -> None:
    """The brokers still have the last run as a member, and refuse its join until it has left."""
    with LocalBroker(settings={"group.streams.max.size": "1"}) as running:
        app = App(running.bootstrap_servers, "full", tmp_path)
        set_group(app.broker, app.name, heartbeat_interval_ms=500)
        try:
            app.send(WORDS)
            first = app.start(1, **STREAMS)
            first.until_running(PARTITIONS)
            first.worker.close(restart=True)
            first.join()
            first.until_event(RestartAnnouncedEvent, awaited=True)
            back = app.start(1, **STREAMS)
            back.until_running(PARTITIONS)
            error = app.start(2, warm_join=False, **STREAMS).until_error()
            assert isinstance(error, ConfigError)
            assert "GROUP_MAX_SIZE_REACHED: raise group.streams.max.size of the brokers" in str(error)
            app.send(WORDS)
            app.until_counted()
            back.until_running(PARTITIONS)
            assert not back.reported(LostEvent)
        finally:
            app.stop()
