"""The tables from which the documentation's reference is generated are complete."""

from __future__ import annotations

from dataclasses import fields

from kstreams_assign import reference
from kstreams_assign.config import Config


def test_every_setting_has_a_description_and_what_is_allowed():
    settings = {setting.key: setting for setting in reference.settings()}
    assert list(settings) == [each.name for each in fields(Config)]
    for setting in settings.values():
        assert setting.description.endswith("."), setting
        assert setting.allowed, setting
        assert setting.unit or not setting.key.endswith("_ms"), setting


def test_a_setting_is_described_by_its_default_its_unit_and_its_name_in_kafka():
    settings = {setting.key: setting for setting in reference.settings()}
    lag = settings["acceptable_recovery_lag"]
    assert (lag.default, lag.allowed, lag.unit, lag.kafka) == (
        "10000",
        "a whole number >= 0",
        "offsets",
        "acceptable.recovery.lag",
    )
    assert settings["application_id"].default == "required"
    assert settings["assignor"].allowed.startswith("least_movement, high_availability")
    assert settings["process_name"].kafka == ""
