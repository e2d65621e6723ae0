"""A program with a transactional producer of its own commits under our membership."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign import Assignment, CommitDue, Config, GroupMember, Lost, SubtopologyShape, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.transactions import group_metadata, librdkafka_writes
from kstreams_assign.adapters.kafka_python import remove_members
from kstreams_assign.errors import CommitDeferred, CommitRefused, ConfigError
from kstreams_assign.group.values import MemberId
from kstreams_assign.worker import group_member
from tests.adapters.confluent_cluster import PATIENCE_S, closed_port, new_topic, transactional, until
from tests.worker import app


@pytest.mark.parametrize(
    ("instance", "another"),
    [(None, "UNKNOWN_MEMBER_ID"), ("an-instance", "FENCED_INSTANCE_ID")],  # the latter only if the instance id arrives
    ids=["dynamic", "static"],
)
def test_offsets_sent_under_this_membership_are_taken_and_those_of_a_stale_or_another_one_are_not(
    broker: str, instance: str | None, another: str
) -> None:
    at = TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)
    config = Config(f"group-of-{at.topic}", broker, processing_guarantee="exactly_once_v2", group_instance_id=instance)
    with GroupMember(config, [SubtopologyShape((at.topic,), ())], uuid4()) as member:
        until(lambda: member.poll(0.5), lambda event: isinstance(event, Assignment))
        member.let_go()
        mine = member._membership.member()
        stale = group_metadata(config.application_id, mine._replace(generation=mine.generation - 1))
        strange = group_metadata(config.application_id, mine._replace(member_id="another"))
        producer = transactional(broker)
        for metadata, refusal in ((stale, "ILLEGAL_GENERATION"), (strange, another)):
            producer.begin_transaction()
            with pytest.raises(KafkaException, match=refusal):
                producer.send_offsets_to_transaction([ClientPartition(*at, 3)], metadata, PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([ClientPartition(*at, 5)], member.group_metadata(), PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)
        assert member.committed([at], PATIENCE_S) == {at: 5}


def test_neither_offsets_nor_metadata_of_a_lost_membership_count_in_the_next(broker: str) -> None:
    """The program works on a batch while the member that the group has removed joins again by itself."""
    at = TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)
    config = Config(f"group-of-{at.topic}", broker, processing_guarantee="exactly_once_v2")
    with GroupMember(config, [SubtopologyShape((at.topic,), ())], uuid4()) as member:
        until(lambda: member.poll(0.5), lambda event: isinstance(event, Assignment))
        member.let_go()
        removed = member._membership.member()
        remove_members(broker, {}, config.application_id, [(removed.member_id, None)], "a test", PATIENCE_S)
        until(lambda: member.poll(0.5), lambda event: isinstance(event, CommitDue))
        member.ready_to_join()
        app.until(lambda: joined_again(member, removed))
        with pytest.raises(CommitRefused, match="the membership was lost"):
            member.commit({at: 3})
        with pytest.raises(CommitRefused, match="the membership was lost"):
            member.group_metadata()
        assert member.committed([at], PATIENCE_S) == {}
        until(lambda: member.poll(0.5), lambda event: isinstance(event, Lost))
        until(lambda: member.poll(0.5), lambda event: isinstance(event, Assignment))
        member.let_go()
        assert removed.member_id.encode() not in member.group_metadata()
        member.commit({at: 5})
        assert member.committed([at], PATIENCE_S) == {at: 5}


def joined_again(member: GroupMember, removed: MemberId) -> bool:
    """Return whether the member is in a generation after that of its removal."""
    with suppress(CommitDeferred, CommitRefused):
        return member._membership.member().member_id != removed.member_id
    return False


def test_a_member_refuses_exactly_once_where_librdkafka_writes_another_format(monkeypatch: pytest.MonkeyPatch) -> None:
    another = librdkafka_writes("a group", None).replace(b"v2", b"v3")
    monkeypatch.setattr(group_member, "librdkafka_writes", lambda _group, _instance: another)
    config = Config("refused", closed_port(), processing_guarantee="exactly_once_v2")
    with pytest.raises(
        ConfigError, match=r"processing_guarantee = 'exactly_once_v2': librdkafka .*v3.* use at_least_once"
    ):
        GroupMember(config, [SubtopologyShape(("words",), ())], uuid4())
