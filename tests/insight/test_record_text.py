"""Lines become records and records become text without a byte being lost or a line broken."""

from __future__ import annotations

import json

import pytest

from kstreams_assign.insight.record_text import as_facts, readable, split_line
from kstreams_assign.tasks.record import Record


@pytest.mark.parametrize(
    ("line", "separator", "record"),
    [
        (b"to=1", b"=", (b"to", b"1")),
        (b"a=b=c", b"=", (b"a", b"b=c")),
        (b"no key", b"=", (None, b"no key")),
        (b"=1", b"=", (b"", b"1")),
        (b"to=", b"=", (b"to", b"")),
        (b"a::1", b"::", (b"a", b"1")),
        (b"a=1", b"", (None, b"a=1")),
    ],
)
def test_a_line_is_split_at_its_first_separator(line, separator, record):
    assert split_line(line, separator) == record


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"3", "3"),
        ("Größe €".encode(), "Größe €"),
        (b"\x00\x00\x00\x03", r"\x00\x00\x00\x03"),
        (b"a\xffb", r"a\xffb"),
        (b"two\nlines\ttab", r"two\nlines\ttab"),
        (b"\x1b[31m", r"\x1b[31m"),
        ("\u202e".encode(), r"\u202e"),
        (b"", ""),
        (None, "(none)"),
    ],
)
def test_bytes_are_readable_and_stay_on_one_line(data, text):
    assert readable(data) == text


def test_the_facts_of_a_record_are_json_whatever_its_bytes():
    record = Record("t", 1, 7, 123, b"k", b"\xff", [("h", None), ("h", b"\x80"), ("g", b"x")])
    assert json.loads(json.dumps(as_facts(record))) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp_ms": 123,
        "key": "k",
        "value": {"hex": "ff"},
        "headers": [["h", None], ["h", {"hex": "80"}], ["g", "x"]],
    }
    assert as_facts(Record("t", 1, 7, 123, None, None)) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp_ms": 123,
        "key": None,
        "value": None,
    }
