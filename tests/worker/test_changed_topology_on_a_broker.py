"""A streams group never changes its topology: what a new version of an application hears, and the way to run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.errors import TopologyMismatch
from kstreams_assign.events import AssignedEvent, RestartAnnouncedEvent, RunningEvent
from tests.worker.app import PARTITIONS, App
from tests.worker.outputs import committed_outputs, each_once
from tests.worker.streams_settings import set_group
from tests.worker.test_streams_group_on_a_broker import SESSION_MS, STREAMS, WORDS

SETTINGS: Mapping[str, Any] = {**STREAMS, "processing_guarantee": "exactly_once_v2"}
NEW_STORES = ("totals", "more")
REMEDY = (
    "A streams group never changes its topology. To run another one, end all members, start the new version once with "
    'group_protocol = "classic", close it, and start it with group_protocol = "streams"; committed offsets and state '
    "stay"
)


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, request.node.name.removeprefix("test_").replace("_", "-"), tmp_path)
    set_group(broker, app.name, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500)
    yield app
    app.stop()


def difference(app: App) -> str:
    more, totals = (f"{app.name}-{store}-changelog" for store in ("more", "totals"))
    return f"another topology than this member: subtopology 0: changelogs: {more}, {totals} here, {totals} in the group"


def refusal(app: App, number: int, **settings: Any) -> str:
    error = app.start(number, **{**SETTINGS, **settings}).until_error()
    assert isinstance(error, TopologyMismatch)
    return str(error)


def test_a_new_version_is_refused_and_goes_on_after_a_start_as_classic(app: App) -> None:
    first = app.start(1, **SETTINGS)
    app.send(WORDS)
    first.until_running(PARTITIONS)
    app.until_counted(read_committed=True)
    first.stop()
    said = refusal(app, 1, stores=NEW_STORES)
    assert said == f"streams group {app.name} has {difference(app)}. {REMEDY}"

    between = app.start(1, stores=NEW_STORES, **{**SETTINGS, "group_protocol": "classic"})
    between.until_event(AssignedEvent)
    between.stop()
    new = app.start(1, stores=NEW_STORES, **SETTINGS)
    app.send(WORDS)
    new.until_running(PARTITIONS)
    app.until_counted(read_committed=True)
    assert committed_outputs(app) == each_once(app)
    assert max(event.restored for event in new.reported(RunningEvent)) <= 2, "what marks the end of a transaction"


def test_beside_a_member_of_the_old_version_the_way_is_named_too(app: App) -> None:
    app.start(1, **SETTINGS).until_running(PARTITIONS)
    same = "Run the same topology in all members, or run another one in all of them"
    assert refusal(app, 2, stores=NEW_STORES) == f"streams group {app.name} has {difference(app)}. {same}. {REMEDY}"


def test_a_process_that_restarts_is_not_taken_for_another_member(app: App) -> None:
    worker = app.start(1, **SETTINGS)
    worker.until_running(PARTITIONS)
    worker.worker.close(restart=True)
    worker.join()
    worker.until_event(RestartAnnouncedEvent, awaited=True)
    own = (
        "Its only member is the last run of this process, which the group keeps until its session ends "
        "(streams.session.timeout.ms)"
    )
    assert refusal(app, 1, stores=NEW_STORES) == f"streams group {app.name} has {difference(app)}. {own}. {REMEDY}"


def test_another_replication_factor_is_another_topology(app: App) -> None:
    worker = app.start(1, replication_factor=1, **SETTINGS)
    worker.until_running(PARTITIONS)
    worker.stop()
    topic = f"{app.name}-totals-changelog"
    assert f"replication_factor of {topic}: -1 here, 1 in the group" in refusal(app, 1, replication_factor=-1)
