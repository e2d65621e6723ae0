"""Dead letters have the headers that Kafka Streams writes, and fit into their topic."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.dead_letters import LEFT_OUT, Failure, dead_letter, failure_of, read_dead_letter
from kstreams_assign.tasks.record import Record

RECORD = Record("orders", 3, 41, 1_700, b"key", b"value", [("trace", b"7"), ("none", None)])
FAILURE = Failure("ValueError", "bad", "Traceback ...")


def headers_of(row: Row) -> dict[str, bytes | None]:
    return dict(row[3])


def test_a_dead_letter_is_its_record_with_the_reason_in_kafkas_headers() -> None:
    topic, key, value, headers, partition, timestamp_ms = dead_letter("dead", RECORD, FAILURE, 1_000_000)
    assert (topic, key, value, partition, timestamp_ms) == ("dead", b"key", b"value", None, 1_700)
    assert list(headers) == [
        ("trace", b"7"),
        ("none", None),
        ("__streams.errors.exception", b"ValueError"),
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


def failure_in(raising: Callable[[], object]) -> Failure:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # each test says which
        raising()
    return failure_of(raised.value)


def test_an_error_is_described_with_its_type_its_message_and_where_it_was_raised() -> None:
    failure = failure_in(lambda: int("x"))
    assert failure.exception == "ValueError"
    assert failure.message == "invalid literal for int() with base 10: 'x'"
    assert failure.text == "ValueError: invalid literal for int() with base 10: 'x'"
    assert 'int("x")' in failure.stacktrace


def test_an_error_without_a_message_is_described_with_its_type() -> None:
    failure = failure_of(KeyError())
    assert (failure.exception, failure.message, failure.text) == ("KeyError", None, "KeyError")


def test_the_type_of_an_error_has_its_module_before_it() -> None:
    class Unpaid(Exception):
        """Of an application."""

    name = "test_the_type_of_an_error_has_its_module_before_it.<locals>.Unpaid"
    assert failure_of(Unpaid("ann")).exception == f"{__name__}.{name}"
    assert failure_of(ConfigError("x")).text == "kstreams_assign.errors.ConfigError: x"


def test_an_error_of_syntax_is_described_as_every_other_error() -> None:
    failure = failure_in(lambda: ast.literal_eval("{1:"))
    assert failure.exception == "SyntaxError"
    assert failure.text == "SyntaxError: '{' was never closed (<unknown>, line 1)"


@pytest.mark.parametrize(
    ("exception", "message", "text", "kind"),
    [
        ("java.lang.IllegalStateException", "at: 5", "java.lang.IllegalStateException: at: 5", None),
        ("ValueError: bad", "bad", "ValueError: bad", "ValueError"),
        ("no payment", "no payment", "no payment", None),
        ("KeyError", "", "KeyError", None),
    ],
)
def test_a_letter_is_read_with_its_message_once(exception: str, message: str, text: str, kind: str | None) -> None:
    """Other writers, such as applications of sidecars, may have the message behind the type."""
    _, key, value, headers, _, time_ms = dead_letter("dead", RECORD, Failure(exception, message, ""), 1_000_000)
    assert time_ms is not None
    letter = read_dead_letter(Record("dead", 0, 5, time_ms, key, value, list(headers)))
    assert letter is not None
    assert (letter.failure.text, letter.failure.kind) == (text, kind or exception)


def test_texts_of_any_length_and_content_become_headers() -> None:
    row = dead_letter("dead", RECORD, Failure("E" * 100_000, "\ud800", "begin" + "s" * 100_000 + "end"), 1_000_000)
    headers = headers_of(row)
    assert len(headers["__streams.errors.exception"] or b"") == 16_384
    assert headers["__streams.errors.message"] == b"\\ud800"
    assert (headers["__streams.errors.stacktrace"] or b"").endswith(b"send")
