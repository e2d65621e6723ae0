"""Java is upgraded from 2.6 to 4.3.1 with a Python worker in the group.

By hand, with the versions of every generation: ``python -m pytest -s tests/releases -k rolling``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kstreams_assign.events import AssignedEvent
from kstreams_assign.local.jars import KAFKA_VERSION
from tests.java.streams_app import StreamsApp
from tests.releases.group import Group, in_turn

OLD, NEW = 8, 11
ALONE, THIRD = 3, 2
UP_S = 180.0
"""For a JVM to start and take its tasks, three at a time on a busy machine."""


def until_each(apps: Iterable[StreamsApp], tasks: int) -> None:
    for app in apps:
        app.until(lambda _, app=app: app.has_tasks(active=tasks), UP_S)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", [6], indirect=True)
def test_a_rolling_upgrade_of_java_with_a_python_worker_in_the_group_loses_nothing(group: Group) -> None:
    """Two instances in turn are closed and come back as the new release on their own state directories."""
    old = [group.java("2.6.3", number) for number in range(2)]
    until_each(old, ALONE)
    ours = group.python()
    ours.until_running(THIRD)
    new = []
    for number in range(2):
        until_each((*old[number:], *new), THIRD)
        old[number].close()
        new.append(group.java(KAFKA_VERSION, number))
    until_each(new, THIRD)
    ours.until_running(THIRD)
    ours.until(lambda _: ours.reported(AssignedEvent)[-1].version == NEW)
    counts, spoken = group.counted(), group.spoken()
    print(*spoken, counts, sep="\n")
    assert (counts.lost, counts.twice, counts.went_back) == (0, 0, 0)
    assert spoken[-1].java == ((NEW, NEW),) * 2
    with_ours = [generation.answered for generation in spoken if generation.python]
    assert in_turn(with_ours) == [(OLD, OLD), (OLD, NEW), (NEW, NEW)]
