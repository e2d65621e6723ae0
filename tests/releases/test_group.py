"""Live groups with other releases of Kafka Streams: led by either side, in the newest common version, no losses."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from kstreams_assign.events import AssignedEvent, DecisionEvent
from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.local.jars import KAFKA_VERSION
from kstreams_assign.worker import membership
from tests.releases.group import Group, in_turn
from tests.releases.releases import LATEST_VERSION
from tests.worker.app import Running

pytestmark = pytest.mark.timeout(400)  # several waits, each with its own limit

NEWEST, FUTURE = 11, 12
HALF, ALL = 2, 4


def future_python(group: Group, monkeypatch: pytest.MonkeyPatch) -> Running:
    """Start a Python worker of a later release: no present member can read its own newest bytes."""

    def write(report: MemberReport) -> bytes:
        if report.version <= NEWEST:
            return APACHE.write_report(report)
        return struct.pack(">ii", report.version, report.latest_supported_version) + b"\xff bytes of a later version"

    future = replace(APACHE, latest_version=FUTURE, write_report=write)
    with monkeypatch.context() as patched:
        patched.setattr(membership, "DIALECTS", {"apache": future})
        worker = group.python(number=1)
        worker.until(bool)
    return worker


@pytest.mark.parametrize(
    ("release", "settings"),
    [
        *(pytest.param(release, {}, id=release) for release in LATEST_VERSION),
        # An eager Java member owns nothing during a rebalance, but its leader respects what others own.
        pytest.param("2.6.3", {"upgrade_from": "2.3"}, id="2.6.3, eagerly"),
    ],
)
def test_leadership_passes_between_an_older_release_and_a_python_worker_and_back(
    group: Group, release: str, settings: dict[str, str]
) -> None:
    theirs = LATEST_VERSION[release]
    java = group.java(release, **settings)
    java.until_tasks(active=ALL)
    ours = group.python()
    ours.until_running(HALF)
    java.until_tasks(active=HALF)
    assert not ours.reported(DecisionEvent), "Java leads"
    for _ in range(2):  # a follower may ask for a rebalance, also without news
        before = ours.reported(AssignedEvent)[-1].generation
        ours.worker.rejoin("asked to")
        ours.until(lambda _, before=before: ours.reported(AssignedEvent)[-1].generation > before)
    java.close()
    ours.until_running(ALL)
    ours.until(lambda _: ours.reported(AssignedEvent)[-1].version == NEWEST)
    restarted = group.java(release, **settings)
    restarted.until_tasks(active=HALF)
    ours.until_running(HALF)
    assert ours.reported(DecisionEvent)[-1].assignor == "high_availability"
    assert group.all_counted()
    spoken = group.spoken()
    assert in_turn([generation.led_by for generation in spoken]) == ["Java", "Python"]
    assert in_turn([generation.python for generation in spoken if generation.python]) == in_turn(
        [((used, NEWEST),) for used in (NEWEST, theirs, NEWEST, theirs)]
    )
    assert {generation.java for generation in spoken if generation.java} == {((theirs, theirs),)}
    assert {generation.answered for generation in spoken if generation.java} == {(theirs, theirs)}


def test_a_worker_of_a_later_release_joins_a_group_led_by_python(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = group.python()
    ours.until_running(ALL)
    newer = future_python(group, monkeypatch)
    newer.until_running(HALF)
    ours.until_running(HALF)
    assert group.all_counted()
    warned = [text for decision in ours.reported(DecisionEvent) for text in decision.warnings]
    assert [text for text in warned if "speaks version 12, newer than 11" in text]
    assert _went_down(group)


def test_a_worker_of_a_later_release_joins_a_group_led_by_java(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    java = group.java(KAFKA_VERSION)
    java.until_tasks(active=ALL)
    newer = future_python(group, monkeypatch)
    newer.until_running(HALF)
    java.until_tasks(active=HALF)
    assert group.all_counted()
    assert _went_down(group)


def _went_down(group: Group) -> bool:
    """Return whether the newest worker began with its version, was answered in ours, and then switched to ours."""
    spoken = group.spoken()
    newest = [
        max(generation.python)
        for generation in spoken
        if (NEWEST, FUTURE) in generation.python or (FUTURE, FUTURE) in generation.python
    ]
    assert {generation.answered for generation in spoken} == {(NEWEST, NEWEST)}
    return in_turn(newest) == [(FUTURE, FUTURE), (NEWEST, FUTURE)]
