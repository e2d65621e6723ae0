"""The records of ``__transaction_state``: what a 4.3.1 broker wrote, Kafka's layout by hand, and hostile input."""

from __future__ import annotations

import struct

import pytest

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire.compile import layout
from kstreams_assign.wire.transaction_log import (
    AT_WORK,
    STATES,
    LoggedTransaction,
    decode_transaction,
    encode_transaction_key,
)
from tests.wire.twin import read_record, rows_of

EMPTY = "0001000000000000000000000000ea600000000001a20384354affffffffffffffff0100080000000000000000"
ONGOING = (
    "0001000000000000000000000000ea600103027403000000010000000000027502000000"
    "0000000001a2038435eb000001a2038435eb0100080000000000000000"
)
COMMITTED = "0001000000000000000000000000ea600401000001a2038435c1000001a20384357c0100080000000000000000"
BOTH = frozenset({TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (EMPTY, LoggedTransaction("Empty", 0, 0, frozenset())),
        (ONGOING, LoggedTransaction("Ongoing", 0, 0, BOTH)),
        (COMMITTED, LoggedTransaction("CompleteCommit", 0, 0, frozenset())),
    ],
)
def test_a_brokers_records_are_read(data, expected):
    assert decode_transaction(bytes.fromhex(data)) == expected


def test_the_engine_reads_what_its_twin_reads():
    data = bytes.fromhex(ONGOING)
    record, end = layout("TransactionLogValue", 1).read(data)
    twin, rest = read_record("TransactionLogValue", 1, data)
    assert {name: rows_of(value) for name, value in record.items()} == twin
    assert (end, rest) == (len(data), b"")


@pytest.mark.parametrize("state", sorted(AT_WORK))
def test_version_0_is_read(state):
    """As brokers before KIP-890 write it."""
    head = struct.pack(">hqhib", 0, 2**40, 5, 60_000, STATES.index(state))
    topics = struct.pack(">ih1siii", 1, 1, b"t", 2, 0, 9)
    read = decode_transaction(head + topics + struct.pack(">qq", 1, 2))
    assert read == LoggedTransaction(state, 2**40, 5, frozenset({TopicPartition("t", 0), TopicPartition("t", 9)}))


def test_null_partitions_of_version_0_are_none():
    head = struct.pack(">hqhib", 0, 1, 5, 60_000, STATES.index("Empty"))
    assert decode_transaction(head + struct.pack(">iqq", -1, 1, 2)).partitions == frozenset()


def test_a_key_equals_a_brokers_key():
    assert encode_transaction_key("app-x") == b"\x00\x00\x00\x05app-x"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00\x02" + bytes.fromhex(ONGOING)[2:], "version at byte 2: 2 is not one of 0-1"),
        (bytes.fromhex(ONGOING)[:16] + b"\x09", "state at byte 17: 9 is not a known state of a transaction"),
        (b"", "version at byte 0: needs 2 bytes, 0 are left"),
    ],
)
def test_unreadable_records_are_refused_with_a_reason(data, expected):
    with pytest.raises(MalformedUserData, match=expected):
        decode_transaction(data)


@pytest.mark.parametrize("cut", range(len(ONGOING) // 2))
def test_every_torn_record_is_refused(cut):
    with pytest.raises(MalformedUserData):
        decode_transaction(bytes.fromhex(ONGOING)[:cut])
