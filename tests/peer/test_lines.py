"""A peer answers every line and goes on, whatever the line contains."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError, InvalidTaskId, MalformedUserData
from kstreams_assign.peer import fields
from kstreams_assign.peer.lines import converse, parsed, reply
from tests.peer.golden_lines import ANSWERS, GOLDEN, cases

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["0_0", "9__9_9", -2, 2**63])
)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def echo(request):
    return {"heard": request}


def test_each_line_gets_an_answer_and_blank_lines_none():
    out = io.StringIO()
    converse([b'{"id": 1}\n', b" \r\n", b"{\n", b'{"id": 2}'], out, echo)
    first, refusal, last = map(json.loads, out.getvalue().splitlines())
    assert first == {"id": 1, "heard": {"id": 1}}
    assert refusal["error"]["class"] == "ConfigError"
    assert last["id"] == 2


def test_an_answer_is_flushed_before_the_next_line_is_read():
    out = Flushed()

    def lines():
        for number in range(3):
            assert len(out.seen.splitlines()) == number
            yield b"{}"

    converse(lines(), out, echo)
    assert len(out.seen.splitlines()) == 3


class Flushed(io.StringIO):
    """``seen`` is what a reader at the other end of a pipe has got."""

    seen = ""

    def flush(self):
        self.seen = self.getvalue()


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[]",
        b"7",
        b'{"a": 1} {"b": 2}',
        b'{"a": 1, "a": 1}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"\xff\xfe",
    ],
    ids=lambda line: line[:24],
)
def test_an_invalid_line_is_refused(line):
    assert json.loads(reply(line, echo)).keys() == {"error"}


def test_an_id_comes_back_with_answers_and_refusals_and_may_be_anything():
    def refuses(_request):
        raise MalformedUserData("cannot be read")

    assert json.loads(reply(b'{"id": null}', echo))["id"] is None
    assert json.loads(reply(b'{"id": {"a": [1]}}', refuses)) == {
        "id": {"a": [1]},
        "error": {"class": "MalformedUserData", "message": "cannot be read"},
    }


def test_an_answer_is_a_line_of_ascii_even_for_half_a_surrogate_pair():
    assert reply(b'{"id": "\\ud800\\n"}', echo).isascii()
    assert "\n" not in reply(b'{"id": "\\n"}', echo)


@pytest.mark.parametrize("sub", ANSWERS)
@given(data=st.data())
def test_no_request_ends_a_peer(sub, data):
    """A valid request with one value replaced, or one key removed, is answered or refused."""
    request = data.draw(st.sampled_from(cases(GOLDEN / f"{sub}.jsonl")))["request"]
    answer = json.loads(reply(json.dumps(spoilt(data, request)).encode(), ANSWERS[sub]))
    assert "error" not in answer or answer["error"].keys() == {"class", "message"}


def spoilt(data, value):
    """Return ``value`` with something in it replaced."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(value)))
        if not data.draw(st.integers(0, 5)):
            return {other: kept for other, kept in value.items() if other != key}
        return value | {key: spoilt(data, value[key])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], spoilt(data, value[at]), *value[at + 1 :]]
    # NaN is not JSON; a test above shows that such a line is refused
    return data.draw(
        anything.filter(lambda value: "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value))
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("0-0-0-0-1", "00000000-0000-0000-0000-000000000001"),
        ("F-a-0-1-ffffffffffff", "0000000f-000a-0000-0001-ffffffffffff"),
        ("123456789-12345-0-0-0", "23456789-2345-0000-0000-000000000000"),
    ],
)
def test_process_ids_are_read_as_java_reads_them(written, read):
    assert str(fields.process_id({"process_id": written})) == read


@pytest.mark.parametrize(
    "written", ["", "0-0-0-0", "0-0-0-0-1-1", "0-0--0-1", "g-0-0-0-1", "0-0-0-0-1 ", "1" * 33 + "-1-1-1-1"]
)
def test_an_invalid_process_id_is_refused(written):
    with pytest.raises(ConfigError):
        fields.process_id({"process_id": written})


def test_a_task_id_beyond_32_bits_is_refused():
    assert fields.task("0_2147483647").partition == 2**31 - 1
    with pytest.raises(InvalidTaskId):
        fields.task("0_2147483648")


def test_a_refusal_names_the_field_and_shows_little_of_a_long_value():
    with pytest.raises(ConfigError, match=r"threads is 'xxx.*\.\.\.; it must be a whole number of 32 bits") as refused:
        fields.number("x" * 1000, "threads", fields.INT32_MAX)
    assert len(str(refused.value)) < 130


@given(st.dictionaries(st.text(), st.integers(-(2**70), 2**70)))
def test_a_request_is_read_unchanged(request_of_any_keys):
    assert parsed(json.dumps(request_of_any_keys).encode()) == request_of_any_keys


def test_the_command_answers_each_line_before_the_next_is_written():
    with subprocess.Popen(
        [sys.executable, "-m", "kstreams_assign", "peer", "decode-subscription"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peer:
        for line in ("{", '{"hex": "0000000c0000000d"}'):
            peer.stdin.write(line + "\n")
            peer.stdin.flush()
            answer = json.loads(peer.stdout.readline())
        peer.stdin.close()
    assert (answer["version"], answer["latest_supported_version"]) == (12, 13)
    assert peer.returncode == 0
