"""Commits of a session that follow one another closely: what the second is answered if the first fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.tasks.commit import CommitEnd
from tests.sidecar.stand import OTHER_TASK, SHAPE, TASK, Stand


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with closing(open_task_stores(tmp_path / "store", ["totals", "stamped"], timestamped=SHAPE.timestamped)) as stores:
        yield Stand(stores)


def commit_with_another_behind(stand: Stand) -> tuple[int, int]:
    """Begin a commit, and ask for the next one."""
    numbers = []
    for offset in (10, 11):
        stand.ask("poll", timeout_ms=60_000)
        stand.bring(offset)
        numbers.append(stand.ask("commit"))
        if offset == 10:
            stand.commit_begins()
    return numbers[0], numbers[1]


@pytest.mark.parametrize("went_back_first", [True, False])
def test_a_commit_behind_one_that_failed_is_refused_if_its_task_went_back(stand: Stand, went_back_first: bool) -> None:
    """Else its session would take for committed what was dropped."""
    numbers = commit_with_another_behind(stand)
    if went_back_first:
        stand.handler.failed([TASK], "on purpose")
    stand.handler.commit_ends(CommitEnd.FAILED)
    if not went_back_first:
        stand.handler.failed([TASK], "on purpose")
    stand.handler.ends(TASK)
    stand.handler.commit_begins()
    stand.handler.commit_ends(CommitEnd.DONE)
    assert [stand.port.answers[number] for number in numbers] == ["commit_failed"] * 2


def test_a_commit_behind_one_that_failed_for_another_task_is_answered_with_its_own_end(stand: Stand) -> None:
    first, second = commit_with_another_behind(stand)
    stand.handler.failed([OTHER_TASK], "on purpose")
    stand.handler.commit_ends(CommitEnd.FAILED)
    stand.handler.commit_begins()
    stand.handler.commit_ends(CommitEnd.DONE)
    assert (stand.port.answers[first], stand.port.answers[second]) == ("commit_failed", 7)
