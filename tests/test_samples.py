"""``make check`` runs a part of many cases, and ``make test`` all."""

from __future__ import annotations

import pytest

from tests.samples import BRIEF_EXAMPLES, examples, sample


@pytest.mark.parametrize(
    ("cases", "count", "expected"),
    [
        (range(60), 4, [0, 15, 30, 45]),
        (["a", "b", "c", "d", "e"], 2, ["a", "c"]),
        (range(7), 3, [0, 2, 4]),
        (["a", "b"], 5, ["a", "b"]),
        (range(3), 3, [0, 1, 2]),
    ],
)
def test_a_sample_is_evenly_spread_and_never_larger_than_asked(cases, count, expected):
    assert list(sample(cases, count, brief=True)) == expected


def test_everything_else_runs_all_cases_and_examples():
    assert sample(range(60), 4, brief=False) == range(60)
    assert examples(250, brief=False) == 250


def test_generated_examples_are_few_and_never_more_than_the_test_asks_for():
    assert examples(250, brief=True) == BRIEF_EXAMPLES
    assert examples(3, brief=True) == 3
