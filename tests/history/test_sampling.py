"""Which changelogs a group's end offsets are asked of, on a real broker."""

from __future__ import annotations

import socket

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.history.sampling import Sampler, changelogs
from kstreams_assign.model import TopicPartition


def test_a_groups_changelogs_are_named_after_it():
    topics = {"app-a-changelog": 2, "app-a-repartition": 2, "app2-a-changelog": 1, "other": 1}
    assert changelogs("app", topics) == [TopicPartition("app-a-changelog", 0), TopicPartition("app-a-changelog", 1)]


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
