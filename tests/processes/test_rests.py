"""Rests grow from 1 s to 60 s, and begin again after a recovery."""

from __future__ import annotations

from itertools import accumulate, repeat

from kstreams_assign.processes.rests import RECOVERED_MS, next_rest_ms


def test_the_rest_doubles_up_to_a_minute():
    rests = list(accumulate(repeat(0, 9), lambda rest, _: next_rest_ms(rest, ran_ms=10), initial=0))
    assert rests[1:] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


def test_a_process_that_had_recovered_begins_with_the_shortest_rest():
    assert next_rest_ms(60_000, RECOVERED_MS) == 1_000
    assert next_rest_ms(60_000, RECOVERED_MS - 1) == 60_000
