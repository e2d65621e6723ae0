"""What stands in the way of a change of the group's protocol, in sentences."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign import Config
from kstreams_assign.observe.migration import MigrationFacts, check_migration

FACTS = MigrationFacts("app", "streams", "classic", committed=2, internal_topics=["app-totals-changelog"])


def config(**settings: object) -> Config:
    return Config("app", "localhost:9092", **settings)  # type: ignore[arg-type]


def test_an_empty_group_may_change_and_keeps_offsets_topics_and_state() -> None:
    migration = check_migration(FACTS)
    assert migration.way == ()
    assert migration.before == ('in each member: group_protocol = "streams" (Java: group.protocol=streams)',)
    assert migration.kept == (
        "committed offsets of 2 partitions",
        "1 internal topic: app-totals-changelog",
        "state directories: a process finds the state of its tasks on its disk",
    )


def test_members_stand_in_the_way_of_another_protocol_only() -> None:
    members = [f"app-{number} (/10.0.0.{number})" for number in range(7)]
    (text,) = check_migration(replace(FACTS, members=members)).way
    assert text.startswith("7 members are in the group: app-0 (/10.0.0.0), ")
    assert text.endswith(" and 2 more; stop all members, Java's too")
    there = check_migration(replace(FACTS, members=members, kind="streams"))
    assert there.way == ()
    (text,) = there.before
    assert text.startswith("nothing: the group uses the streams protocol and keeps its topology; to run another one")
    back = check_migration(replace(FACTS, members=members, to="classic"))
    assert (back.way, back.before) == ((), ("nothing: the group uses the classic protocol",))


def test_settings_that_no_streams_group_knows_stand_in_the_way() -> None:
    way = check_migration(
        replace(FACTS, config=config(group_instance_id="one", num_standby_replicas=3), patterns=["region-.*"])
    ).way
    assert [text.partition(":")[0].partition(" = ")[0] for text in way] == [
        "a subtopology reads topics that match region-.*",
        "group_instance_id",
        "num_standby_replicas",
    ]
    assert check_migration(replace(FACTS, to="classic", kind="streams", patterns=["region-.*"])).way == ()


def test_brokers_that_know_static_members_of_streams_groups_keep_them() -> None:
    old, new = (replace(FACTS, config=config(group_instance_id="one"), heartbeat_version=each) for each in (0, 1))
    (text,) = check_migration(old).way
    assert text.startswith("group_instance_id = 'one': remove it, or upgrade the brokers to Kafka 4.4 or later")
    assert check_migration(new).way == ()


def test_settings_go_to_the_brokers_as_far_as_the_group_does_not_have_them() -> None:
    wanted = config(num_standby_replicas=1, session_timeout_ms=50_000, assignor="sticky")
    first, _, last = check_migration(replace(FACTS, config=wanted)).before
    assert first.endswith(
        "--entity-name app --add-config streams.num.standby.replicas=1,streams.session.timeout.ms=50000"
    )
    assert last == "these settings have no effect any more: assignor, num_standby_replicas"
    there = {"streams.num.standby.replicas": "1", "streams.session.timeout.ms": "50000"}
    assert "kafka-configs" not in " ".join(check_migration(replace(FACTS, config=wanted, group_settings=there)).before)


def test_a_session_that_is_shorter_than_the_groups_needs_no_setting_which_brokers_would_refuse() -> None:
    (first, *_) = check_migration(
        replace(FACTS, config=config(num_standby_replicas=1, session_timeout_ms=30_000))
    ).before
    assert first.endswith("--add-config streams.num.standby.replicas=1")


def test_a_session_that_is_longer_than_brokers_allow_stands_in_the_way_until_the_group_has_it() -> None:
    facts = replace(FACTS, config=config(session_timeout_ms=120_000))
    migration = check_migration(facts)
    (text,) = migration.way
    assert text.startswith("session_timeout_ms = 120000: the brokers allow 60000 by default")
    assert "group.streams.max.session.timeout.ms" in text
    assert "kafka-configs" not in " ".join(migration.before)
    raised = check_migration(replace(facts, group_settings={"streams.session.timeout.ms": "120000"}))
    assert raised.way == ()
    assert "kafka-configs" not in " ".join(raised.before)


def test_a_group_that_does_not_exist_keeps_nothing() -> None:
    assert check_migration(replace(FACTS, kind=None)).kept == ("nothing: there is no such group yet",)


def test_an_empty_group_of_consumers_becomes_classic_and_only_then_a_streams_group() -> None:
    """Brokers replace it when a classic member joins, and refuse a streams member (4.3.1)."""
    empty = replace(FACTS, kind="consumer")
    assert check_migration(replace(empty, to="classic")).way == ()
    (text,) = check_migration(empty).way
    assert text == (
        'the group is of the type consumer, without members: start one process once with group_protocol = "classic", '
        "and close it"
    )
    no_members_of_streams = "the group is of the type consumer: its members are no members of Kafka Streams"
    for to in ("classic", "streams"):
        assert check_migration(replace(empty, to=to, has_members=True)).way == (no_members_of_streams,)


def test_an_empty_group_of_another_type_is_to_be_deleted() -> None:
    for to in ("classic", "streams"):
        way = check_migration(replace(FACTS, kind="share", to=to)).way
        assert way == ("the group is of the type share: delete it, or change application_id",)
