"""Dead letters have the headers that Kafka Streams writes, and fit into their topic."""

from __future__ import annotations

import pytest

from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.dead_letters import LEFT_OUT, Failure, dead_letter, failure_of
from kstreams_assign.tasks.record import Record

RECORD = Record("orders", 3, 41, 1_700, b"key", b"value", [("trace", b"7"), ("none", None)])
FAILURE = Failure("ValueError: bad", "bad", "Traceback ...")


def headers_of(row: Row) -> dict[str, bytes | None]:
    return dict(row[3])


def test_a_dead_letter_is_its_record_with_the_reason_in_kafkas_headers() -> None:
    topic, key, value, headers, partition, timestamp_ms = dead_letter("dead", RECORD, FAILURE, 1_000_000)
    assert (topic, key, value, partition, timestamp_ms) == ("dead", b"key", b"value", None, 1_700)
    assert list(headers) == [
        ("trace", b"7"),
        ("none", None),
        ("__streams.errors.exception", b"ValueError: bad"),
        ("__streams.errors.message", b"bad"),
        ("__streams.errors.stacktrace", b"Traceback ..."),
        ("__streams.errors.topic", b"orders"),
        ("__streams.errors.partition", b"3"),
        ("__streams.errors.offset", b"41"),
    ]


def test_a_record_that_fails_again_has_the_headers_of_its_last_failure_only() -> None:
    first = dead_letter("dead", RECORD, FAILURE, 1_000_000)
    again = Record("dead", 0, 5, 1_700, b"key", b"value", list(first[3]))
    headers = [name for name, _ in dead_letter("dead", again, FAILURE, 1_000_000)[3]]
    assert len(headers) == len(set(headers)) == 8


LARGE = bytes(5_000)


@pytest.mark.parametrize(
    ("record", "kept", "left_out"),
    [
        (RECORD._replace(value=LARGE), (b"key", None), b"value of 5,000 bytes"),
        (RECORD._replace(headers=[("h", LARGE)]), (b"key", None), b"value of 5 bytes, 1 headers of the input record"),
        (RECORD._replace(value=None, headers=None, key=LARGE), (None, None), b"key of 5,000 bytes"),
        (
            RECORD._replace(value=b"", key=LARGE),
            (None, None),
            b"value of 0 bytes, 2 headers of the input record, key of 5,000 bytes",
        ),
    ],
)
def test_what_would_be_too_large_is_left_out_and_named(
    record: Record, kept: tuple[bytes | None, bytes | None], left_out: bytes
) -> None:
    row = dead_letter("dead", record, FAILURE, 2_000)
    assert row[1:3] == kept
    assert headers_of(row)[LEFT_OUT] == left_out
    assert headers_of(row)["__streams.errors.offset"] == b"41"


def test_an_error_is_described_with_its_type_its_message_and_where_it_was_raised() -> None:
    try:
        int("x")
    except ValueError as error:
        failure = failure_of(error)
    assert failure.exception == "ValueError: invalid literal for int() with base 10: 'x'"
    assert failure.message == "invalid literal for int() with base 10: 'x'"
    assert 'int("x")' in failure.stacktrace
    assert failure_of(KeyError()).message is None


def test_texts_of_any_length_and_content_become_headers() -> None:
    row = dead_letter("dead", RECORD, Failure("E" * 100_000, "\ud800", "begin" + "s" * 100_000 + "end"), 1_000_000)
    headers = headers_of(row)
    assert len(headers["__streams.errors.exception"] or b"") == 16_384
    assert headers["__streams.errors.message"] == b"\\ud800"
    assert (headers["__streams.errors.stacktrace"] or b"").endswith(b"send")
