"""A snapshot in a file: comes back equal, and a damaged one is refused by its name and field."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.snapshot import DescribedMember, GroupSnapshot, read_snapshot, snapshot_text
from tests.observe.seen_group import scaled_out

MEMBER = DescribedMember("m-1", "client", "/10.0.0.1", "static-1", b"\x00\xff", b"")
SNAPSHOT = GroupSnapshot(
    group="app",
    state="Stable",
    protocol_type="consumer",
    protocol="stream",
    members=(MEMBER,),
    taken_ms=1_700_000_000_000,
    generation=3,
    leader="m-1",
    assigned_ms=1_699_999_999_000,
    partition_counts={"in": 2},
    end_offsets={TopicPartition("app-s-changelog", 1): 7, TopicPartition("app-s-changelog", 0): 9},
    begin_offsets={TopicPartition("app-s-changelog", 0): 1},
    gaps={"topics": "may not be seen"},
    joining=(replace(MEMBER, member_id="m-2"),),
    left=("m-0",),
    rebalance_timeout_ms=300_000,
)


@pytest.mark.parametrize("snapshot", [SNAPSHOT, scaled_out().snapshot(), GroupSnapshot("g", "Empty", "", "", (), 5)])
def test_a_snapshot_comes_back_equal_from_its_file(snapshot):
    assert read_snapshot(snapshot_text(snapshot)) == snapshot


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("group",), None, "group: must be a text"),
        (("taken_ms",), "soon", "taken_ms: must be a whole number"),
        (("taken_ms",), True, "taken_ms: must be a whole number"),
        (("generation",), "3", "generation: must be a whole number"),
        (("members",), {}, "members: must be a list"),
        (("members", 0), "m", "members.member_id: must be a text"),
        (("members", 0, "subscription"), "%%%", "members.subscription: "),
        (("end_offsets", "app-s-changelog", "0"), "9", "end_offsets.app-s-changelog.0: must be a whole number"),
        (("end_offsets", "app-s-changelog"), {"x": 1}, "end_offsets.app-s-changelog: 'x' is not a partition number"),
        (("partition_counts",), [], "partition_counts: must be an object"),
    ],
)
def test_a_damaged_file_is_refused_by_name_and_field(path, value, said):
    content = json.loads(snapshot_text(SNAPSHOT))
    within = content
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = value
    with pytest.raises(ConfigError) as refused:
        read_snapshot(json.dumps(content), "g.json")
    assert f"g.json is a damaged group snapshot: {said}" in str(refused.value)


def test_invalid_json_and_another_version_are_refused():
    with pytest.raises(ConfigError, match=r"g\.json is not a group snapshot"):
        read_snapshot("{", "g.json")
    newer = {**json.loads(snapshot_text(SNAPSHOT)), "version": 2}
    with pytest.raises(ConfigError, match="version 2; this release reads"):
        read_snapshot(json.dumps(newer))
    with pytest.raises(ConfigError, match="format: must be a text"):
        read_snapshot("[]")
