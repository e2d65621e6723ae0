"""Which changelogs a group's end offsets are asked of, on a real broker."""

from __future__ import annotations

import socket
from contextlib import closing

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.history.live import Asked, source_of
from kstreams_assign.history.sampling import Sampler, changelogs
from kstreams_assign.history.source import TOPIC
from kstreams_assign.model import TopicPartition
from tests.worker.app import until


def test_a_groups_changelogs_are_named_after_it():
    topics = {"app-a-changelog": 2, "app-a-repartition": 2, "app2-a-changelog": 1, "other": 1}
    assert changelogs("app", topics) == [TopicPartition("app-a-changelog", 0), TopicPartition("app-a-changelog", 1)]


def test_a_changelog_is_that_of_the_group_with_the_longest_name():
    topics = {"app-a-changelog": 1, "app-v2-a-changelog": 1, "app-v2-b-c-changelog": 1}
    groups = {"app", "app-v2", "app-v2-b", "other"}
    found = {group: [topic for topic, _ in changelogs(group, topics, groups)] for group in groups}
    assert found == {
        "app": ["app-a-changelog"],
        "app-v2": ["app-v2-a-changelog"],
        "app-v2-b": ["app-v2-b-c-changelog"],
        "other": [],
    }


def test_the_groups_of_the_brokers_and_the_id_of_their_topic_are_known(broker, tmp_path):
    admin = ClusterAdmin(broker)
    admin.create_topics({"known-a-changelog": 1, "known-v2-a-changelog": 1}, 20)
    with closing(Consumer({"bootstrap.servers": broker, "group.id": "known-v2"})) as consumer:
        consumer.commit(offsets=[ClientPartition("known-a-changelog", 0, 0)], asynchronous=False)
        ends, _ = Sampler(admin).ends(["known"])
    assert [end.topic for end in ends["known"]] == ["known-a-changelog"]
    source, _ = source_of(Asked(tmp_path, bootstrap_servers=broker))
    assert source.topic_id == admin.topic_id(TOPIC, 20) != ""


def test_a_topic_that_is_created_again_has_another_id(broker):
    admin, other = ClusterAdmin(broker), AdminClient({"bootstrap.servers": broker})
    assert admin.topic_id("created-again", 20) == ""
    ids = set()
    for _ in range(2):
        admin.create_topics({"created-again": 1}, 20)
        ids.add(admin.topic_id("created-again", 20))
        other.delete_topics(["created-again"])["created-again"].result(20)
        until(lambda: "created-again" not in admin.topics(20), 20)
    assert len(ids) == 2
    assert "" not in ids


def test_ends_are_sampled_with_their_time(broker):
    admin = ClusterAdmin(broker)
    admin.create_topics({"sampled-store-changelog": 2}, 20)
    before = wall_ms()
    ends, note = Sampler(admin).ends(["sampled", "sampled", "without-changelogs"])
    assert note == ""
    assert [(e.topic, e.partition, e.end, e.begin) for e in ends["sampled"]] == [
        ("sampled-store-changelog", 0, 0, 0),
        ("sampled-store-changelog", 1, 0, 0),
    ]
    assert all(before <= end.sampled_ms <= wall_ms() for end in ends["sampled"])
    assert ends["without-changelogs"] == []


def test_what_cannot_be_sampled_is_left_out_and_noted():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = Sampler(ClusterAdmin(f"127.0.0.1:{taken.getsockname()[1]}"), timeout_s=0.3)
        ends, note = away.ends(["app"])
        assert ends == {}
        assert note.startswith("no end offsets for app: ")
        assert away.ends([]) == ({}, "")
