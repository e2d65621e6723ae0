"""Plays on Spark come to what they come to here."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import SparkError
from kstreams_assign.history.spread import dealt
from kstreams_assign.sim.play import Script, play


def test_seeds_played_by_sparks_workers_go_as_they_go_here(spark, tmp_path):
    scripts = [Script.draw(seed, faults=True) for seed in (3, 5, 8)]
    assert dealt(spark, play, scripts, tmp_path / "spark.log") == [play(script) for script in scripts]


def divide(number):
    return 1 // number


def test_what_a_worker_raises_is_one_of_our_errors(spark, tmp_path):
    with pytest.raises(SparkError, match="ZeroDivisionError"):
        dealt(spark, divide, [1, 0], tmp_path / "spark.log")
