"""The three laws of byte compatibility, for every version of both messages.

1. Re-encoding what Java wrote gives the same bytes. 2. Every value survives a round trip. 3. Java reads our bytes as an
equal value (it did when ``protocol/golden/make.py`` made the vectors, and we still write those bytes).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.wire import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from tests.samples import examples
from tests.wire.golden import assignment_words, cases, name, subscription_words
from tests.wire.strategies import VERSIONS, assignments, subscriptions, unhurried

each_subscription = pytest.mark.parametrize("case", cases("subscription"), ids=name)
each_assignment = pytest.mark.parametrize("case", cases("assignment"), ids=name)


@each_subscription
def test_a_java_subscription_reads_as_java_reads_it(case):
    assert subscription_words(decode_subscription(bytes.fromhex(case["hex"]))) == case["java_reads"]


@each_assignment
def test_a_java_assignment_reads_as_java_reads_it(case):
    assert assignment_words(decode_assignment(bytes.fromhex(case["hex"]))) == case["java_reads"]


@each_subscription
def test_a_java_subscription_is_written_again_unchanged(case):
    assert encode_subscription(decode_subscription(bytes.fromhex(case["hex"]))).hex() == case["hex"]


@each_assignment
def test_a_java_assignment_is_written_again_unchanged(case):
    assert encode_assignment(decode_assignment(bytes.fromhex(case["hex"]))).hex() == case["hex"]


@each_subscription
def test_a_subscription_of_ours_has_the_bytes_that_java_read_as_equal(case):
    ours = decode_subscription(bytes.fromhex(case["ours"]))
    assert ours.trailer is not None
    assert replace(ours, trailer=None) == decode_subscription(bytes.fromhex(case["hex"]))
    assert encode_subscription(ours).hex() == case["ours"]


@each_assignment
def test_an_assignment_of_ours_has_the_bytes_that_java_read_as_equal(case):
    ours = decode_assignment(bytes.fromhex(case["ours"]))
    assert ours.trailer is not None
    assert assignment_words(ours) == case["java_reads"]
    assert encode_assignment(replace(ours, topic_index={})).hex() == case["ours"]


@given(st.sampled_from(VERSIONS).flatmap(subscriptions))
@settings(unhurried, max_examples=examples(250))
def test_every_subscription_survives_a_round_trip(info):
    assert decode_subscription(encode_subscription(info)) == info


@given(st.sampled_from(VERSIONS).flatmap(assignments))
@settings(unhurried, max_examples=examples(250))
def test_every_assignment_survives_a_round_trip(info):
    assert decode_assignment(encode_assignment(info)) == info


@given(subscriptions(11))
@unhurried
def test_maps_keep_their_order_in_a_subscription(info):
    decoded = decode_subscription(encode_subscription(info))
    assert list(decoded.task_offset_sums) == list(info.task_offset_sums)
    assert list(decoded.client_tags) == list(info.client_tags)


@given(assignments(11))
@unhurried
def test_maps_keep_their_order_in_an_assignment(info):
    decoded = decode_assignment(encode_assignment(info))
    assert list(decoded.standby_tasks) == list(info.standby_tasks)
    assert list(decoded.partitions_by_host) == list(info.partitions_by_host)
    assert list(decoded.standby_partitions_by_host) == list(info.standby_partitions_by_host)


def test_the_vectors_cover_every_version():
    for kind in ("subscription", "assignment"):
        assert {case["request"]["version"] for case in cases(kind)} == set(VERSIONS)
