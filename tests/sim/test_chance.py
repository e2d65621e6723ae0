"""Fast random numbers: the same as Python's own, from the same seed."""

from __future__ import annotations

from random import Random

from kstreams_assign.sim.chance import Chance


def test_numbers_are_those_of_random() -> None:
    chance, prepared, random = Chance("seed"), Chance("seed"), Random("seed")
    travel_ms = prepared.between(1, 15)
    drawn = [random.randint(1, 15) for _ in range(1_000)]
    assert [chance.randint(1, 15) for _ in drawn] == [travel_ms() for _ in drawn] == drawn
