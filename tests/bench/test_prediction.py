"""How often a process knows what it will get in a streams group: the benchmark, in a few groups."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from bench.prediction import KINDS, TOGETHER, Row, main, measure
from kstreams_assign.observe.streams_state import playable
from tests.observe.random_streams_groups import described, grown

GROUPS = 60


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(measure(GROUPS, seed=3))


def test_nearly_every_task_that_comes_was_predicted(rows: list[Row]) -> None:
    expected = [row for row in rows if row.joining != TOGETHER]
    assert len(expected) == 10
    for row in expected:
        assert row.active_tasks > 4 * GROUPS
        assert row.active_hits >= 0.99
        assert row.stateful_hits >= 0.99
        assert row.active_in_vain <= 0.01
        assert row.standby_hits >= (0.99 if row.settings == "known" else 0.1)


def test_two_that_meet_do_not_know_of_each_other(rows: list[Row]) -> None:
    met = [row for row in rows if row.joining == TOGETHER]
    assert len(met) == 2
    for row in met:
        assert 0.5 < row.active_hits < 0.99
        assert row.exact < 1


def test_a_wrong_prediction_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin has one task more than the brokers describe."""

    def with_less(coordinator, *, is_readable):
        snapshot = described(coordinator, is_readable=is_readable)
        return replace(snapshot, partition_counts=dict.fromkeys(snapshot.partition_counts, 1))

    monkeypatch.setattr("bench.prediction.described", with_less)
    row = next(iter(measure(GROUPS, seed=3)))
    assert row.active_hits < 0.5
    assert row.exact < 0.5


def test_the_described_group_is_the_coordinators() -> None:
    random = Random(5)
    for _ in range(20):
        coordinator = grown(random)
        group = playable(described(coordinator, is_readable=True)).state.group
        assert group == coordinator.described()


def test_it_prints_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--groups", "5", "--seed", "2"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["groups"] for line in lines] == [5] * len(KINDS)
