"""What a worker counts: durations in buckets, totals by key, the disk space of tasks."""

from __future__ import annotations

import pytest

from kstreams_assign.model import TaskId
from kstreams_assign.status.views import BOUNDS_S
from kstreams_assign.worker import meters
from kstreams_assign.worker.meters import Durations, Totals, count_topics
from kstreams_assign.worker.state_sizes import folder_bytes


def test_a_duration_falls_into_the_first_bucket_that_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(meters.time, "monotonic", lambda: now_s)
    durations = Durations()
    for passed_s in (0.005, 0.006, 400.0):
        durations.start()
        now_s += passed_s
        durations.stop()
    assert durations.view.counts == (1, 1, *(0,) * (len(BOUNDS_S) - 2), 1)
    assert durations.view.sum_s == pytest.approx(400.011)
    assert durations.view.cumulative()[:3] == [("0.005", 1), ("0.01", 2), ("0.025", 2)]
    assert durations.view.cumulative()[-1] == ("+Inf", 3)
    assert durations.view.count == 3


def test_a_duration_counts_from_its_first_start_and_only_if_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(meters.time, "monotonic", lambda: now_s)
    durations = Durations()
    durations.stop()
    durations.start()
    durations.drop()
    durations.stop()
    assert durations.view.count == 0
    durations.start()
    now_s = 1.0
    durations.start()
    now_s = 3.0
    durations.stop()
    assert durations.view.sum_s == 3.0


def test_totals_grow_by_key_and_a_view_stays_as_it_was() -> None:
    totals: Totals[tuple[TaskId, str]] = Totals()
    totals.add((TaskId(0, 1), "in"), 2)
    before = totals.view()
    totals.add((TaskId(0, 1), "in"), 3)
    assert (before, totals.view()) == ({(TaskId(0, 1), "in"): 2}, {(TaskId(0, 1), "in"): 5})


def test_emitted_rows_are_counted_by_topic() -> None:
    rows = [("a", b"k", b"v", (), None, 0), ("b", b"k", b"v", (), None, 0), ("a", b"k", None, (), 1, 0)]
    assert count_topics(rows) == {"a": 2, "b": 1}


def test_a_folder_takes_what_its_files_take_and_a_deleted_one_nothing(tmp_path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "000001.sst").write_bytes(b"x" * 1_000)
    (tmp_path / "LOG").write_bytes(b"y" * 24)
    assert folder_bytes(tmp_path) == 1_024
    assert folder_bytes(tmp_path / "deleted") == 0
