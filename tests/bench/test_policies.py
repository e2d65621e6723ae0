"""Random situations with every policy: the measurement, in a few of them."""

from __future__ import annotations

import json

import pytest

from bench.policies import Beside, compare, main, summary


def test_each_situation_is_compared_with_the_cheapest_other_policy(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--count", "3", "--seed", "4"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    whole = [line for line in lines if "situations" in line]
    assert [(line["announced"], line["situations"], line["violations"]) for line in whole] == [
        (False, 3, 0),
        (True, 3, 0),
    ]
    assert all(line["ratio"] > 1.2 for line in lines if "ratio" in line)


def test_a_process_that_announces_its_restart_costs_less() -> None:
    plain, announced = (compare(22, announced=announced) for announced in (False, True))
    assert plain.best_s == announced.best_s
    assert announced.ours_s < plain.ours_s


def test_the_summary_counts_by_ratio() -> None:
    found = [Beside(at, ours_s, 99.0, "simple", 0) for at, ours_s in enumerate((99.0, 104.0, 125.0, 160.0))]
    assert summary(found) == {
        "situations": 4,
        "violations": 0,
        "cheapest": 1,
        "at_most_1.1": 2,
        "above_1.2": 2,
        "above_1.5": 1,
        "ours_s": 488,
        "best_of_the_others_s": 396,
    }
