"""Java stores that cannot be restored here are refused by name."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store, SubtopologyShape, TopologyShape
from kstreams_assign.topology.kinds import (
    UNSUPPORTED_KINDS,
    refuse_foreign_stores,
    refuse_headers,
    timestamped_kind,
)

SHAPE = TopologyShape(
    (
        SubtopologyShape(("a",), (Store("totals"), Store("cache", logged=False))),
        SubtopologyShape(("b",), (Store("table", source="b"),)),
    )
)


def named(store: str) -> TopologyShape:
    return TopologyShape((SubtopologyShape(("a",), (Store(store),)),))


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"cleanup.policy": "compact,delete"}, "compact,delete, as changelogs of windowed and session stores have"),
        ({"cleanup.policy": "delete, compact"}, "delete, compact, as changelogs of windowed"),
        ({"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}, "86400000, as changelogs of versioned"),
    ],
)
def test_a_changelog_with_the_settings_of_another_kind_is_refused_naming_the_store(
    own: dict[str, str | None], why: str
) -> None:
    with pytest.raises(ConfigError, match=f"store 'totals': app-totals-changelog has .*{why}"):
        refuse_foreign_stores(SHAPE, "app", {"app-totals-changelog": own})


def test_a_key_value_stores_settings_pass_and_other_topics_are_ignored() -> None:
    ours: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": "0",
        "message.timestamp.type": "CreateTime",
    }
    windowed: dict[str, str | None] = {"cleanup.policy": "compact,delete"}
    for settings in ({}, {"app-totals-changelog": ours}, {"b": windowed, "app-cache-changelog": windowed}):
        refuse_foreign_stores(SHAPE, "app", settings)


@pytest.mark.parametrize(
    "store",
    [
        "KSTREAM-JOINTHIS-0000000004-store",
        "KSTREAM-OUTEROTHER-0000000005-store",
        "KSTREAM-OUTERSHARED-0000000004-store",
        "KTABLE-SUPPRESS-STATE-STORE-0000000009",
    ],
)
def test_stores_with_generated_names_of_javas_dsl_are_refused_without_a_changelog(store: str) -> None:
    with pytest.raises(ConfigError, match=f"store '{store}': by its name .* of Java's DSL"):
        refuse_foreign_stores(named(store), "app", {})


def test_aggregates_of_javas_dsl_are_key_value_stores() -> None:
    refuse_foreign_stores(named("KSTREAM-AGGREGATE-STATE-STORE-0000000003"), "app", {})


def test_headers_in_a_changelog_are_refused_naming_the_store_the_headers_and_the_setting() -> None:
    with pytest.raises(ConfigError) as refused:
        refuse_headers("app-totals-changelog", "totals", {"v", "origin", "trace"})
    message = str(refused.value)
    assert "store 'totals': app-totals-changelog has records with headers (origin, trace)" in message
    assert "set drop_headers for this store" in message


def test_headers_that_java_writes_for_consistent_reads_are_ignored() -> None:
    refuse_headers("app-totals-changelog", "totals", {"v", "c"})


def test_only_changelogs_that_belong_to_a_store_alone_must_be_without_headers() -> None:
    stores = (
        Store("totals"),
        Store("cache", logged=False),
        Store("table", source="b"),
        Store("traced", drop_headers=True),
    )
    shape = TopologyShape((SubtopologyShape(("a", "b"), stores),))
    assert shape.bare_changelogs("app") == {"app-totals-changelog": "totals"}


def test_each_kind_is_supported_or_refused_by_its_name() -> None:
    assert (timestamped_kind("type", "key_value"), timestamped_kind("type", "timestamped_key_value")) == (False, True)
    for kind in UNSUPPORTED_KINDS:
        with pytest.raises(ConfigError, match=f"type = '{kind}': is not supported yet"):
            timestamped_kind("type", kind)
