"""Ranges and choices have one table: whatever has a setting refuses the same values in the same words."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from kstreams_assign.allowed_values import CHOICES, COSTS, RANGES, check_value
from kstreams_assign.assign import AssignConfig
from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import NO_PROBE_MS
from kstreams_assign.wire import AssignmentInfo, decode_assignment, encode_assignment

NEEDED = {"application_id": "app", "bootstrap_servers": "localhost:9092"}
TABLES = (RANGES, COSTS, CHOICES)
YEAR_9999_MS = 253_402_300_799_999
IN_BOTH = sorted({each.name for each in fields(AssignConfig)} - {"rack_aware_assignment_tags"})


def test_each_setting_of_the_tables_exists_and_is_in_one_of_them():
    keys = Counter(key for table in TABLES for key in table)
    assert keys.keys() <= {each.name for each in fields(Config)}
    assert set(keys.values()) == {1}


@pytest.mark.parametrize("key", IN_BOTH)
def test_a_member_and_a_decision_refuse_a_value_alike(key):
    with pytest.raises(ConfigError) as of_decision:
        AssignConfig(**{key: -1})
    with pytest.raises(ConfigError) as of_member:
        Config(**NEEDED, **{key: -1})
    assert str(of_decision.value) == str(of_member.value)
    assert str(of_member.value).startswith(f"{key} = -1: must be ")


@pytest.mark.parametrize("key", [*RANGES, *COSTS])
def test_a_range_has_its_limits_and_only_whole_numbers(key):
    allowed = {**RANGES, **COSTS}[key]
    check_value(key, allowed.least)
    wrong = [allowed.least - 1, str(allowed.least), float(allowed.least), True]
    if allowed.most is not None:
        check_value(key, allowed.most)
        wrong.append(allowed.most + 1)
    for value in wrong:
        with pytest.raises(ConfigError, match=f"^{key} = {value!r}: must be a whole number >= {allowed.least}"):
            check_value(key, value)


def test_a_range_may_allow_one_number_beside_it():
    for factor in (-1, 1, 3, 32_767):
        check_value("replication_factor", factor)
    for wrong in (-2, 0, -1.0, True):
        with pytest.raises(ConfigError, match=r"must be a whole number >= 1 and <= 32767, or -1$"):
            check_value("replication_factor", wrong)


def test_a_setting_in_milliseconds_has_an_upper_limit():
    keys = {each.name for kind in (Config, AssignConfig) for each in fields(kind) if each.name.endswith("_ms")}
    assert [key for key in sorted(keys) if key not in RANGES or RANGES[key].most is None] == []


def test_an_assignment_can_hold_the_time_of_the_latest_probing_rebalance():
    most_ms = RANGES["probing_rebalance_interval_ms"].most
    assert most_ms is not None
    at_ms = YEAR_9999_MS + most_ms
    info = AssignmentInfo(version=11, commonly_supported_version=11, next_rebalance_ms=at_ms)
    assert decode_assignment(encode_assignment(info)).next_rebalance_ms == at_ms < NO_PROBE_MS


def test_only_a_cost_may_be_left_out():
    for key in COSTS:
        check_value(key, None)
    for key in [*RANGES, *CHOICES]:
        with pytest.raises(ConfigError, match=f"^{key} = None: must be "):
            check_value(key, None)
