"""Which of several lost records is to blame, and what its error says of it. No broker, and no client."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError

from kstreams_assign.adapters.confluent import RecordProducer
from kstreams_assign.adapters.confluent.flight import Lost, _worst
from kstreams_assign.errors import RecordRefused

TOO_LARGE, BAD_TIME, BAD = KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD


def lost(key: bytes | None, value: bytes, code: int, topic: str = "out") -> Lost:
    return Lost.of(topic, 0, key, value, None, KafkaError(code))


def refused(records: Sequence[Lost]) -> RecordRefused:
    error = _worst([*records]).fault("lost")
    assert isinstance(error, RecordRefused)
    return error


def hashes(records: Sequence[tuple[bytes | None, bytes]]) -> frozenset[int]:
    return frozenset(map(hash, records))


def test_of_a_batch_that_is_too_large_each_record_may_be_to_blame_as_headers_are_unknown() -> None:
    records = [lost(b"a", b"12", TOO_LARGE), lost(b"b", b"1", TOO_LARGE), lost(b"c", b"1", TOO_LARGE, "other")]
    error = refused(records)
    assert (error.key, error.size_bytes, error.too_large) == (b"a", 3, True)
    assert error.contents == hashes([(b"a", b"12"), (b"b", b"1")])
    assert "key and value of the record have 3 bytes: raise max.message.bytes" in str(error)


@pytest.mark.parametrize("code", [BAD_TIME, BAD])
def test_a_record_that_is_not_valid_is_alone_to_blame(code: int) -> None:
    beside = lost(b"b", b"", KafkaError._INVALID_DIFFERENT_RECORD)
    for records in ([lost(b"a", b"1", code)], [lost(b"a", b"1", code), lost(b"c", b"", code), beside]):
        error = refused(records)
        assert (error.invalid, error.untimely) == (True, code == BAD_TIME)
        assert error.contents == hashes([(b"a", b"1")])
        assert error.of_task("0_0").contents == error.contents


def test_the_error_of_a_whole_batch_names_no_record_with_a_key() -> None:
    assert not refused([lost(b"a", b"1", BAD_TIME), lost(b"b", b"1", BAD_TIME)]).invalid
    without_key = refused([lost(b"a", b"12", BAD), lost(None, b"1", BAD)])
    assert without_key.invalid
    assert without_key.contents == hashes([(None, b"1")])


def test_a_record_that_is_too_large_because_of_its_headers_is_refused_with_their_size() -> None:
    producer = RecordProducer("127.0.0.1:1", delivery_timeout_ms=2_000)
    with pytest.raises(RecordRefused, match=r"key, value and headers of the record have 1,100,016 bytes: ") as raised:
        producer.produce_all([("out", b"k", bytes(200_000), [("trace", bytes(900_000))], None, 7)])
    assert raised.value.size_bytes == 1_100_016
    assert raised.value.contents == hashes([(b"k", bytes(200_000))])
    producer.close()
