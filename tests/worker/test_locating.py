"""A key's owner, as Kafka's partitioner and the leader's host maps say."""

from __future__ import annotations

import pytest

from kstreams_assign.model import HostInfo, Store, SubtopologyShape, TopicPartition
from kstreams_assign.worker.locating import locate, murmur2, partition_of

HOST_1, HOST_2 = HostInfo("one", 1), HostInfo("two", 2)
SHAPE = SubtopologyShape(("orders",), (Store("totals"),))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key, hashed):
    assert murmur2(key) == hashed % 2**32


def test_a_key_is_found_where_its_partition_is():
    number = partition_of(b"ann", 4)
    mine, other = TopicPartition("orders", number), TopicPartition("orders", (number + 1) % 4)
    location = locate(SHAPE, number, {HOST_1: (other,), HOST_2: (mine,)}, {HOST_1: (mine,), HOST_2: (other,)})
    assert location == {"active": "two:2", "standbys": ["one:1"]}


def test_without_endpoints_nothing_is_known():
    assert locate(SHAPE, 3, {}, {}) == {"active": None, "standbys": []}


def test_an_ipv6_host_is_shown_in_brackets():
    mine = TopicPartition("orders", 0)
    location = locate(SHAPE, 0, {HostInfo("::1", 8080): (mine,)}, {HostInfo("[::2]", 8080): (mine,)})
    assert location == {"active": "[::1]:8080", "standbys": ["[::2]:8080"]}
