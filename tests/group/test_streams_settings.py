"""What a member's settings mean in a streams group, and what its coordinator's status says."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kstreams_assign import Config
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.streams_settings import NO_EFFECT, SESSION_TIMEOUT, check_session, ineffective_settings
from kstreams_assign.wire.streams_heartbeat import (
    ASSIGNMENT_DELAYED,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    GroupStatus,
)
from kstreams_assign.worker.streams_status import StatusWarnings

MISSING_SOURCE = GroupStatus(MISSING_SOURCE_TOPICS, "orders")
MISSING_INTERNAL = GroupStatus(MISSING_INTERNAL_TOPICS, "app-totals-changelog")


def config(**settings: object) -> Config:
    return Config("app", "localhost:9092", group_protocol="streams", **settings)  # type: ignore[arg-type]


def test_each_setting_without_effect_exists_and_is_named_once_it_is_set() -> None:
    assert NO_EFFECT.keys() <= {each.name for each in fields(Config)}
    assert ineffective_settings(config()) == ()
    (warning,) = ineffective_settings(config(num_standby_replicas=1))
    assert warning.startswith("num_standby_replicas = 1: has no effect in a streams group: set streams.num.standby")


def test_a_session_may_not_be_longer_than_the_groups() -> None:
    assert check_session(config(session_timeout_ms=45_000), {SESSION_TIMEOUT: "45000"}) == ()
    with pytest.raises(ConfigError, match=r"session_timeout_ms = 45001: must be at most .* = 45000 .* set session_tim"):
        check_session(config(session_timeout_ms=45_001), {SESSION_TIMEOUT: "45000"})
    (warning,) = check_session(config(), {})
    assert "DESCRIBE_CONFIGS" in warning


def test_user_data_that_no_streams_group_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="user_data = 'kip441'"):
        config(user_data="kip441")


def test_a_status_is_a_warning_when_somebody_has_to_look_at_it() -> None:
    warnings = StatusWarnings()
    assert warnings.news(0) is None
    warnings.hear([MISSING_SOURCE, GroupStatus(ASSIGNMENT_DELAYED, "waits for members")], 0)
    assert warnings.news(0) == ("source topics are missing; create them (orders)",)
    assert warnings.news(1_000) is None, "it is reported once"
    warnings.hear([], 2_000)
    assert warnings.news(2_000) == ()


def test_internal_topics_may_be_missing_while_the_brokers_create_them() -> None:
    warnings = StatusWarnings()
    warnings.hear([MISSING_INTERNAL], 0)
    assert warnings.news(15_000) is None, (
        "the longest interval of heartbeats has passed, and the next answer has not come"
    )
    warnings.hear([MISSING_INTERNAL], 15_500)
    assert warnings.news(19_999) is None
    (text,) = warnings.news(20_000) or ()
    assert "allow this member to create topics (app-totals-changelog)" in text
