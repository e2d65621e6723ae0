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
        "KSTREAM-JOIN-0000000007-Buffer",
        "KSTREAM-LEFTJOIN-0000000007-Buffer",
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
        refuse_headers("app-totals-changelog", "totals", {("v", b"\0"), ("origin", b"here"), ("trace", None)})
    message = str(refused.value)
    assert "store 'totals': app-totals-changelog has records with headers (origin, trace)" in message
    assert "set drop_headers for this store" in message


def test_headers_that_java_writes_for_consistent_reads_are_ignored() -> None:
    refuse_headers("app-totals-changelog", "totals", {("v", b"\0"), ("c", b"position"), ("c", None)})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_buffer_of_a_suppression_that_has_a_name_of_its_own_is_recognized_by_its_version(version: int) -> None:
    with pytest.raises(ConfigError) as refused:
        refuse_headers("app-late-store-changelog", "late-store", {("v", bytes([version])), ("vh.old", b"")})
    message = str(refused.value)
    assert "store 'late-store': app-late-store-changelog has records with the header v = " in message
    assert "the buffer of a suppression" in message
    assert "drop_headers" not in message


@pytest.mark.parametrize("value", [None, b"", b"0", b"\x09", b"\0\0"])
def test_a_header_v_with_any_other_value_is_a_header_that_would_be_lost(value: bytes | None) -> None:
    with pytest.raises(ConfigError, match=r"records with headers \(v\), .* set drop_headers"):
        refuse_headers("app-totals-changelog", "totals", {("v", value)})


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
