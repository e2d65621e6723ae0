"""A fleet of groups as records: real bytes, distinct for every group, the same for the same seed."""

from __future__ import annotations

from functools import cache
from itertools import groupby

import pyarrow.parquet as pq
import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.errors import DeliveryFailed
from kstreams_assign.history.derive import derive
from kstreams_assign.history.generate import (
    BATCH_OVERHEAD_BYTES,
    MESSAGE_BYTES_MAX,
    Fleet,
    Name,
    named_records,
    write_fleet,
)
from kstreams_assign.history.lives import KINDS, SLOW, STORM, play
from kstreams_assign.history.records import Kind, key_of
from kstreams_assign.wire import decode_group_metadata, decode_offset_commit
from tests.history.groups import columns, rows

FLEET = Fleet(groups=22, members=8, generations=6, seed=5, partitions=3)


@cache
def everything(fleet=FLEET):
    return [record for partition in range(fleet.partitions) for record in fleet.records(partition)]


def by_group(records):
    groups = {}
    for record in records:
        groups.setdefault(key_of(record.key).group, []).append(record)
    return groups


def generations(records):
    return [decode_group_metadata(record.value) for record in records if key_of(record.key).kind is Kind.GROUP_METADATA]


def test_every_group_lives_for_its_generations_with_no_more_members_than_said():
    groups = by_group(everything())
    assert len(groups) == FLEET.groups
    for records in groups.values():
        completed = generations(records)
        assert [generation.generation for generation in completed] == list(range(1, FLEET.generations + 1))
        assert max(len(generation.members) for generation in completed) <= FLEET.members
        assert all(generation.protocol == "stream" for generation in completed)


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others():
    same_seed = Fleet(groups=22, members=8, generations=6, seed=5, partitions=3)
    other = Fleet(groups=22, members=8, generations=6, seed=6, partitions=3)
    assert everything(same_seed) == everything()
    assert not {record.value for record in everything(other)} & {record.value for record in everything()}


def test_no_two_groups_have_a_process_a_member_or_a_record_in_common():
    groups = by_group(everything())
    metadata = [
        {record.value for record in records if key_of(record.key).kind is Kind.GROUP_METADATA}
        for records in groups.values()
    ]
    assert len(set.union(*metadata)) == FLEET.groups * FLEET.generations
    members = [
        {m.member_id for generation in generations(records) for m in generation.members} for records in groups.values()
    ]
    assert len(set.union(*members)) == sum(map(len, members))


def test_the_derivation_reads_every_group_without_a_complaint():
    kinds_seen = set()
    for records in by_group(everything()).values():
        _, tables = derive(None, columns(records))
        rebalances = rows(tables, "rebalances")
        assert len(rebalances) == FLEET.generations
        assert rows(tables, "quarantine") == []
        assert None not in {row["cause"] for row in rebalances}
        kinds_seen |= {row["cause"] for row in rebalances}
        assert {row["kind"] for row in rows(tables, "counts")} == {"group_metadata", "offset_commit"}
    assert {"first", "join", "leave", "follow_up", "probe"} <= kinds_seen


def test_planned_movements_are_warm_and_their_tasks_are_committed_before_and_after():
    moved = [
        row
        for records in by_group(everything()).values()
        for row in rows(derive(None, columns(records))[1], "movements")
        if row["planned"]
    ]
    assert len(moved) > 20
    assert {row["warm"] for row in moved} == {True, None}
    assert all(row["gap_ms"] > 0 for row in moved)


def life_rows(kind, table):
    life = play(kind, members=8, generations=12, seed=2)
    return rows(derive(None, columns(list(named_records(life, Name("life", 0, 0)))))[1], table)


def test_in_a_storm_members_change_before_a_rebalance_has_an_effect():
    rebalances = life_rows(STORM, "rebalances")
    assert rebalances[-1]["time_ms"] - rebalances[0]["time_ms"] < 60_000
    assert {row["cause"] for row in rebalances} >= {"join", "leave"}
    assert "probe" not in {row["cause"] for row in rebalances}


def test_a_slow_group_probes_for_an_hour_and_changes_every_few_days():
    rebalances = life_rows(SLOW, "rebalances")
    causes = [row["cause"] for row in rebalances]
    assert "probe" in causes
    assert max(len(list(same)) for cause, same in groupby(causes) if cause == "probe") > 2
    assert rebalances[-1]["time_ms"] - rebalances[0]["time_ms"] > 12 * 3_600_000


def test_a_group_stands_in_the_partition_where_the_broker_looks_for_it():
    """Java: ``Utils.abs("hello".hashCode()) % 50`` with 99162322, and a negative hash, "kstreams".hashCode()."""
    assert Name("hello", 0, 0).partition == 99_162_322 % 50
    assert {name.partition for name in FLEET.names} == {0, 1, 2}
    for partition in range(FLEET.partitions):
        for record in FLEET.records(partition):
            assert record.partition == partition


def test_files_hold_each_partition_in_the_order_of_time(tmp_path):
    written = write_fleet(tmp_path / "one", FLEET)
    assert write_fleet(tmp_path / "two", FLEET, workers=2) == written
    assert (written.groups, written.generations, written.too_large) == (22, 22 * 6, [])
    commits = 0
    for partition in range(FLEET.partitions):
        table = pq.read_table(tmp_path / "one" / f"partition-{partition:05d}.parquet")
        assert table.equals(pq.read_table(tmp_path / "two" / f"partition-{partition:05d}.parquet"))
        assert table.column_names == ["partition", "offset", "timestamp_ms", "key", "value"]
        assert table["offset"].to_pylist() == list(range(table.num_rows))
        times = table["timestamp_ms"].to_pylist()
        assert times == sorted(times)
        pairs = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        stored = [decode_offset_commit(value) for key, value in pairs if key_of(key).kind is Kind.OFFSET_COMMIT]
        assert {commit.version for commit in stored} == {4}
        commits += len(stored)
    assert commits == written.commits


@pytest.fixture(scope="module")
def large():
    """As many groups as there are lives, with members enough that endpoints weigh."""
    return Fleet(groups=len(KINDS), members=100, generations=1, seed=1)


def sizes(fleet):
    return {
        name.group: max(len(r.key) + len(r.value) for r in everything(fleet) if key_of(r.key).group == name.group)
        for name in fleet.names
    }


def test_it_says_which_groups_are_too_large_for_a_default_broker(large):
    by_group = sizes(large)
    assert large.too_large() == [g for g, size in by_group.items() if size + BATCH_OVERHEAD_BYTES > MESSAGE_BYTES_MAX]
    assert 0 < len(large.too_large()) < large.groups


def test_a_default_broker_takes_the_others_and_refuses_these(large, broker):
    topic = "group-metadata-by-size"
    ClusterAdmin(broker).create_topics({topic: 1}, 60.0, configs={}, replication_factor=1)
    producer = RecordProducer(broker, {"message.max.bytes": "4000000"}, delivery_timeout_ms=60_000)
    refused = []
    for record in everything(large):
        if key_of(record.key).kind is not Kind.GROUP_METADATA:
            continue
        producer.produce(topic, 0, record.key, record.value)
        try:
            producer.flush(60.0)
        except DeliveryFailed:
            refused.append(key_of(record.key).group)
    producer.close()
    assert sorted(refused) == sorted(large.too_large())
