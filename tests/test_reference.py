"""The tables from which the documentation's reference is generated are complete."""

from __future__ import annotations

from dataclasses import fields

from kstreams_assign import errors, reference
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


def test_every_error_says_what_happened_and_what_the_application_can_do():
    described = {each.name: each for each in reference.errors()}
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert described.keys() == defined
    assert [name for name in defined if name not in errors.__doc__] == []
    for each in described.values():
        assert each.meaning.endswith("."), each
        assert each.remedy.endswith("."), each
    assert described["RecordRefused"].base == "DeliveryFailed"
