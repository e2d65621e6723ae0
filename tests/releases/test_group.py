"""Live groups with other releases of Kafka Streams: led by either side, in the newest version that all can, every input counted once."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.local.jars import KAFKA_VERSION
from kstreams_assign.worker import membership
from tests.releases.group import Group, in_turn
from tests.releases.releases import LATEST_VERSION
from tests.worker.app import Running

pytestmark = pytest.mark.timeout(400)  # several waits, each with a limit of its own

NEWEST, FUTURE = 11, 12
HALF, ALL = 2, 4


def future_python(group: Group, monkeypatch: pytest.MonkeyPatch) -> Running:
    """A worker of ours that is of a release to come: its own newest bytes are read by nobody yet."""

    def write(report: MemberReport) -> bytes:
        if report.version <= NEWEST:
            return APACHE.write_report(report)
        return struct.pack(">ii", report.version, report.latest_supported_version) + b"\xff bytes that nobody can read"

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
        # Java that rebalances eagerly owns nothing over a rebalance, but its leader respects what others own.
        pytest.param("2.6.3", {"upgrade_from": "2.3"}, id="2.6.3, eagerly"),
    ],
)
def test_leadership_goes_over_and_back_between_an_older_release_and_ours(
    group: Group, release: str, settings: dict[str, str]
) -> None:
    theirs = LATEST_VERSION[release]
    java = group.java(release, **settings)
    java.until_tasks(active=ALL)
    ours = group.python()
    ours.until_running(HALF)
    java.until_tasks(active=HALF)
    assert not ours.named("decision"), "Java leads"
    for _ in range(2):  # a follower may ask for a rebalance, also where it has nothing new to tell
        before = ours.named("assigned")[-1]["generation"]
        ours.worker.rejoin("asked to")
        ours.until(lambda _, before=before: ours.named("assigned")[-1]["generation"] > before)
    java.close()
    ours.until_running(ALL)
    ours.until(lambda _: ours.named("assigned")[-1]["version"] == NEWEST)
    again = group.java(release, **settings)
    again.until_tasks(active=HALF)
    ours.until_running(HALF)
    assert ours.named("decision")[-1]["assignor"] == "high_availability"
    assert group.all_counted()
    spoken = group.spoken()
    assert in_turn([one.led_by for one in spoken]) == ["Java", "Python"]
    assert in_turn([one.python for one in spoken if one.python]) == in_turn(
        [((used, NEWEST),) for used in (NEWEST, theirs, NEWEST, theirs)]
    )
    assert {one.java for one in spoken if one.java} == {((theirs, theirs),)}
    assert {one.answered for one in spoken if one.java} == {(theirs, theirs)}


def test_a_worker_of_a_release_to_come_joins_a_group_that_we_lead(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = group.python()
    ours.until_running(ALL)
    newer = future_python(group, monkeypatch)
    newer.until_running(HALF)
    ours.until_running(HALF)
    assert group.all_counted()
    warned = [text for decision in ours.named("decision") for text in decision["warnings"]]
    assert [text for text in warned if "speaks version 12, newer than 11" in text]
    assert _went_down(group)


def test_a_worker_of_a_release_to_come_joins_a_group_that_java_leads(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = group.java(KAFKA_VERSION)
    java.until_tasks(active=ALL)
    newer = future_python(group, monkeypatch)
    newer.until_running(HALF)
    java.until_tasks(active=HALF)
    assert group.all_counted()
    assert _went_down(group)


def _went_down(group: Group) -> bool:
    """Whether the newest worker began with its version, was answered in ours, and from then on spoke ours."""
    spoken = group.spoken()
    newest = [max(one.python) for one in spoken if (NEWEST, FUTURE) in one.python or (FUTURE, FUTURE) in one.python]
    assert {one.answered for one in spoken} == {(NEWEST, NEWEST)}
    return in_turn(newest) == [(FUTURE, FUTURE), (NEWEST, FUTURE)]
