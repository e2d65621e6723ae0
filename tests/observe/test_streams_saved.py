"""A snapshot of a streams group in a file: comes back equal, and a damaged one is refused by its name and field."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.observe.snapshot import snapshot_text
from kstreams_assign.observe.streams_saved import is_streams_snapshot, read_streams_snapshot, streams_snapshot_text
from tests.observe.seen_group import settled
from tests.observe.test_streams_reasons import AT_REST

SNAPSHOT = replace(AT_REST, settings={"streams.heartbeat.interval.ms": "700"}, gaps={"topics": "may not be seen"})


@pytest.mark.parametrize("snapshot", [SNAPSHOT, AT_REST, replace(AT_REST, group=replace(AT_REST.group, topology=None))])
def test_a_snapshot_comes_back_equal_from_its_file(snapshot: Any) -> None:
    assert read_streams_snapshot(streams_snapshot_text(snapshot)) == snapshot


def test_files_of_both_kinds_are_told_apart() -> None:
    assert is_streams_snapshot(streams_snapshot_text(SNAPSHOT))
    assert not is_streams_snapshot(snapshot_text(settled().snapshot()))
    assert not is_streams_snapshot("[1]")
    assert not is_streams_snapshot("no JSON")
    with pytest.raises(ConfigError, match="x is 'kstreams-assign group snapshot', version 1; this release reads"):
        read_streams_snapshot(snapshot_text(settled().snapshot()), "x")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("described", "%%%", "described: "),
        ("described", "AAAA", "described: "),
        ("described", 7, "described: must be a text"),
        ("taken_ms", "soon", "taken_ms: must be a whole number"),
        ("settings", {"a": 1}, "settings.a: must be a text"),
        ("end_offsets", [], "end_offsets: must be an object"),
    ],
)
def test_a_damaged_file_is_refused_by_name_and_field(key: str, value: object, said: str) -> None:
    content = {**json.loads(streams_snapshot_text(SNAPSHOT)), key: value}
    with pytest.raises(ConfigError, match=f"g.json is a damaged group snapshot: {said}"):
        read_streams_snapshot(json.dumps(content), "g.json")
