"""Settings that a store declares for its changelog."""

from __future__ import annotations

from typing import Any

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store, SubtopologyShape, TopologyShape
from kstreams_assign.topology.changelog_settings import (
    CHANGELOG_SETTINGS,
    TOPIC_SETTINGS,
    changelog_settings,
    declared_settings,
    differences,
    refuse_changelog_config,
    refuse_too_few_replicas,
)
from kstreams_assign.topology.internal import refuse_wrong_topology
from kstreams_assign.topology.kinds import refuse_foreign_stores


def shape_of(*stores: Store) -> TopologyShape:
    return TopologyShape((SubtopologyShape(("in",), stores),))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"min.insync.replica": "2"}, "'min.insync.replica': no such setting of a topic; did you mean min.insync.rep"),
        ({"min_insync_replicas": "2"}, "no such setting of a topic; did you mean min.insync.replicas?"),
        ({"Retention.MS": "2"}, "no such setting of a topic; did you mean retention.ms?"),
        ({"xyz": "2"}, "'xyz': no such setting of a topic; settings of topics are cleanup.policy, "),
        ({"min.insync.replicas": "two"}, "min.insync.replicas = 'two': must be a whole number"),
        ({"min.insync.replicas": 2.5}, "min.insync.replicas = 2.5: must be a whole number"),
        ({"min.insync.replicas": None}, "min.insync.replicas = None: must be a whole number"),
        ({"min.insync.replicas": True}, "min.insync.replicas = True: must be a whole number"),
        ({"min.cleanable.dirty.ratio": "1.5"}, "min.cleanable.dirty.ratio = '1.5': must be a number from 0 to 1"),
        ({"min.cleanable.dirty.ratio": "nan"}, "min.cleanable.dirty.ratio = 'nan': must be a number from 0 to 1"),
        ({"preallocate": "maybe"}, "preallocate = 'maybe': must be true or false"),
        ({"compression.type": " "}, "compression.type = ' ': must be a string that is not empty"),
        ({"cleanup.policy": "delete"}, "cleanup.policy = 'delete': must be compact: without compaction"),
        ({"cleanup.policy": "compact,delete"}, "cleanup.policy = 'compact,delete': must be compact"),
        ({"message.timestamp.type": "LogAppendTime"}, "message.timestamp.type = 'LogAppendTime': must be CreateTime"),
    ],
)
def test_what_a_changelog_cannot_have_is_refused_with_store_and_setting(config: dict[str, Any], says: str) -> None:
    store = Store("totals", changelog_config=config)
    for refuse in (
        lambda: refuse_changelog_config(store),
        lambda: refuse_wrong_topology(shape_of(Store("other"), store), "app"),
    ):
        with pytest.raises(ConfigError) as caught:
            refuse()
        assert str(caught.value).startswith("store totals: changelog_config: ")
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("store", "says"),
    [
        (Store("t", logged=False, changelog_config={"segment.ms": "1"}), "must be left out, as it has no changelog"),
        (Store("t", source="in", changelog_config={"segment.ms": "1"}), "as its changelog is the source topic in"),
        (Store("t", changelog_config="segment.ms=1"), "must map names"),  # type: ignore[arg-type]
    ],
)
def test_settings_without_a_topic_are_refused(store: Store, says: str) -> None:
    with pytest.raises(ConfigError, match=f"store t: changelog_config = .*{says}"):
        refuse_changelog_config(store)


def test_declared_settings_override_the_defaults_of_their_changelog_alone() -> None:
    config = {"min.insync.replicas": 2, "preallocate": True, "min.cleanable.dirty.ratio": 0.1, "segment.ms": " 7 "}
    shape = shape_of(
        Store("a", changelog_config={"cleanup.policy": "compact", **config}),
        Store("b"),
        Store("c", logged=False),
        Store("d", source="in"),
    )
    refuse_wrong_topology(shape, "app")
    texts = {"min.insync.replicas": "2", "preallocate": "true", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "7"}
    assert changelog_settings(shape, "app") == {
        "app-a-changelog": {**CHANGELOG_SETTINGS, **texts},
        "app-b-changelog": dict(CHANGELOG_SETTINGS),
    }
    assert declared_settings(shape, "app") == {"app-a-changelog": {"cleanup.policy": "compact", **texts}}


def test_every_setting_has_a_value_that_is_accepted() -> None:
    samples = {"a whole number": "1", "true or false": "False", "a number from 0 to 1": "1"}
    config = {name: CHANGELOG_SETTINGS.get(name) or samples.get(kind, "x") for name, kind in TOPIC_SETTINGS.items()}
    refuse_changelog_config(Store("t", changelog_config=config))


def test_a_changelog_that_has_fewer_replicas_than_a_write_needs_is_refused() -> None:
    shape = shape_of(Store("t", changelog_config={"min.insync.replicas": "2"}))
    says = (
        r"min.insync.replicas = 2: must be at most replication_factor = 1: brokers before Kafka 3.7 accept no write to "
        r"such a changelog, later ones take the number of replicas instead"
    )
    with pytest.raises(ConfigError, match=says):
        refuse_too_few_replicas(shape, 1)
    for enough in (-1, 2, 3):
        refuse_too_few_replicas(shape, enough)
    refuse_too_few_replicas(shape_of(Store("t")), 1)


def test_an_existing_changelog_with_other_settings_is_reported_with_both() -> None:
    declared = {"a": {"segment.ms": "7", "retention.ms": "9"}, "b": {"segment.ms": "7"}, "new": {"segment.ms": "7"}}
    actual: dict[str, dict[str, str | None]] = {"a": {"segment.ms": "8"}, "b": {"segment.ms": "7"}}
    [warning] = differences(declared, actual)
    assert "a exists with other settings" in warning
    assert "segment.ms = 8 (declared: 7), retention.ms = not set (declared: 9)" in warning


def test_a_declared_compaction_lag_is_not_taken_for_that_of_a_versioned_store() -> None:
    actual: dict[str, dict[str, str | None]] = {"app-t-changelog": {"min.compaction.lag.ms": "60000"}}
    refuse_foreign_stores(shape_of(Store("t", changelog_config={"min.compaction.lag.ms": 60_000})), "app", actual)
    with pytest.raises(ConfigError, match="or declare it in the store's changelog_config"):
        refuse_foreign_stores(shape_of(Store("t")), "app", actual)


def test_a_store_can_still_be_hashed() -> None:
    one = Store("t", changelog_config={"segment.ms": "7"})
    assert {one: 1}[Store("t", changelog_config={"segment.ms": "7"})] == 1
    assert one != Store("t")
