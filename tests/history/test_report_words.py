"""Titles say what to look at, in figures that are true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.history.report import words
from kstreams_assign.history.report.view import Buckets, Damage, FleetView, GroupLine, Probing, Span
from kstreams_assign.history.times import HOUR_MS, duration

LINE = GroupLine("calm", 4, 2.0, 0, 0, 0, (), None, 3, None, 0, (0, 4))


def fleet(*lines, damage=()):
    return FleetView(Span(0, HOUR_MS), lines, Buckets(0, HOUR_MS, {}), (), damage)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (111, "111 ms"),
        (999.6, "1 s"),
        (10_400, "10.4 s"),
        (60_000, "1 min"),
        (380_000, "6 min 20 s"),
        (1_525_000, "25 min"),
        (54_000_000, "15 h"),
        (9_000_000, "2 h 30 min"),
        (183_600_000, "2 d 3 h"),
    ],
)
def test_a_duration_in_words(ms, text):
    assert duration(ms) == text


@pytest.mark.parametrize(("rate", "text"), [(0.04, "0.04"), (2, "2.0"), (9.96, "10"), (1234, "1,234")])
def test_a_rate_has_two_digits_that_matter(rate, text):
    assert words.per_hour(rate) == text


def test_groups_that_never_finish_probing_are_the_first_headline_and_the_longest_says_why():
    stuck = replace(LINE, group="stuck", probing=Probing(0, HOUR_MS, 6, 5))
    first, *_ = words.headlines(fleet(stuck, replace(stuck, group="other"), LINE))
    assert (first.tone, first.text) == ("bad", "2 groups never finish probing")
    assert first.detail == "the longest: 1 h; the last 5 probes moved nothing"
    assert first.groups == ("stuck", "other")


def test_one_group_never_finishes_and_one_that_still_moves_is_no_trouble():
    assert (
        words.headlines(fleet(replace(LINE, probing=Probing(0, 1, 3, 3))))[0].text == "1 group never finishes probing"
    )
    calm = words.headlines(fleet(replace(LINE, probing=Probing(0, 1, 3, 2))))[0]
    assert (calm.tone, calm.detail) == ("good", "1 group still probing as the history ends")


def test_a_calm_fleet_says_so():
    assert [(headline.tone, headline.text) for headline in words.headlines(fleet(LINE))] == [
        ("good", "No group probes without end"),
        ("good", "No task flaps"),
        ("plain", "4 rebalances"),
    ]


def test_flapping_cold_and_silent_tasks_and_unreadable_records_are_headlines():
    bad = replace(LINE, group="bad", flapping=("0_1", "0_2"), cold=2, owner_changes=9, worst_gap_ms=61_000)
    headlines = words.headlines(fleet(bad, LINE, damage=(Damage("damaged_value", "cut", 3, ""),)))
    assert [(headline.tone, headline.text) for headline in headlines[1:]] == [
        ("bad", "2 tasks flap in 1 group"),
        ("plain", "8 rebalances in 2 groups"),
        ("warn", "2 tasks moved cold"),
        ("warn", "Longest gap of a move: 1 min 1 s"),
        ("warn", "3 records could not be read"),
    ]


def test_nothing_has_no_headline():
    assert words.headlines(fleet()) == ()


@pytest.mark.parametrize(
    ("counts", "title"),
    [
        ({}, "No rebalance"),
        ({"probe": (2, 1)}, "3 of 3 rebalances were probes"),
        ({"probe": (2, 1), "join": (0, 1)}, "3 of 4 rebalances were probes (75%)"),
    ],
)
def test_the_most_frequent_cause_is_the_title(counts, title):
    assert words.causes_title(Buckets(0, HOUR_MS, counts)) == title
