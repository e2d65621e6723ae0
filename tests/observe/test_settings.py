"""Settings are given, seen or assumed, and every assumption is reported."""

from __future__ import annotations

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.leader import settings_digest
from kstreams_assign.observe.settings import read_settings, settings_of
from tests.observe.seen_group import SeenGroup, of_later_release, scaled_out, settled


def test_texts_become_values_under_kafkas_names_or_ours():
    settings = read_settings(
        ["acceptable.recovery.lag=0", "num_standby_replicas = 2", "rack_aware_assignment_tags=zone, cluster"]
    )
    assert settings == {
        "acceptable_recovery_lag": 0,
        "num_standby_replicas": 2,
        "rack_aware_assignment_tags": ("zone", "cluster"),
    }


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("lag=1", "--set lag=1: write KEY=VALUE with one of acceptable_recovery_lag,"),
        ("assignor", "--set assignor: write KEY=VALUE"),
        ("assignor=best", "--set assignor=best: must be one of least_movement, high_availability,"),
        ("max_warmup_replicas=0", "max_warmup_replicas = 0: must be a whole number >= 1"),
        (
            "rack.aware.assignment.strategy=min_traffic",
            "--set rack_aware_assignment_strategy=min_traffic: this command does not read",
        ),
        ("max_warmup_replicas=-1", "--set max_warmup_replicas=-1: must be a whole number"),
    ],
)
def test_a_wrong_setting_is_refused_by_key_and_value(pair, said):
    with pytest.raises(ConfigError) as refused:
        read_settings([pair])
    assert str(refused.value).startswith(said)


def test_a_setting_is_assumed_unless_it_is_given():
    settings = settings_of(scaled_out().decoded(), {"acceptable_recovery_lag": 5, "assignor": "sticky"})
    assert (settings.config.acceptable_recovery_lag, settings.assignor) == (5, "sticky")
    assert settings.assumed.keys() == {
        "max_warmup_replicas",
        "num_standby_replicas",
        "probing_rebalance_interval_ms",
        "rack_aware_assignment_strategy",
        "rack_aware_assignment_tags",
        "scheduled_rebalance_max_delay_ms",
    }


def test_standbys_and_warm_ups_are_counted_where_they_can_be_seen():
    settings = settings_of(settled(members=3, num_standby_replicas=1).decoded(), {})
    assert settings.config.num_standby_replicas == 1
    assert settings.assumed["num_standby_replicas"] == "1, as many as every stateful task has"
    many = settings_of(scaled_out(partitions=12, max_warmup_replicas=5).decoded(), {})
    assert many.config.max_warmup_replicas == 5
    javas = settings_of(scaled_out(partitions=12, max_warmup_replicas=5, ours=False).decoded(), {})
    assert javas.config.max_warmup_replicas == 5
    alone = settings_of(settled(members=1).decoded(), {})
    assert alone.assumed["num_standby_replicas"] == "0, the default; one process has no standbys"


def test_our_leader_reports_its_assignor_and_a_java_leader_does_not():
    assert settings_of(scaled_out(ours=False).decoded(), {}).assumed["assignor"].startswith("high_availability")
    assert "assignor" not in settings_of(scaled_out().decoded(), {}).assumed


def test_an_assignor_of_a_later_release_is_replaced_by_the_default_with_the_reason():
    group = of_later_release(assignor="least_cost").decoded()
    settings = settings_of(group, {})
    assert settings.assignor == "least_movement"
    assert settings.assumed["assignor"] == (
        "least_movement, the default: the leader's 'least_cost' is of a later release, so predictions may differ"
    )
    given = settings_of(group, {"assignor": "sticky"})
    assert (given.assignor, "assignor" in given.assumed) == ("sticky", False)


def test_a_balance_by_of_a_later_release_is_replaced_by_the_default_with_the_reason():
    group = of_later_release(balance_by="cpu_time").decoded()
    settings = settings_of(group, {})
    assert settings.config.balance_by == "tasks"
    assert settings.assumed["balance_by"] == (
        "tasks, the default: the members' 'cpu_time' is of a later release, so predictions may differ"
    )
    given = settings_of(group, {"balance_by": "state_size"})
    assert (given.config.balance_by, "balance_by" in given.assumed) == ("state_size", False)


def with_digests(config: AssignConfig) -> SeenGroup:
    group = settled(members=2)
    group.digest = settings_digest("high_availability", config)
    return group


def test_a_digest_proves_settings_right_or_wrong():
    default = with_digests(AssignConfig()).decoded()
    assert settings_of(default, {}).assumed == {}
    wrong = settings_of(default, {"acceptable_recovery_lag": 7})
    assert "their digests differ" in wrong.assumed["settings"]
    other = with_digests(AssignConfig(acceptable_recovery_lag=7)).decoded()
    assert "settings" in settings_of(other, {}).assumed
    assert settings_of(other, {"acceptable_recovery_lag": 7}).assumed == {}
