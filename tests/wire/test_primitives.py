"""Single fields: Java's two kinds of string, and a reader that trusts no length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.wire.primitives import (
    NULLABLES,
    PRIMITIVES,
    Source,
    modified_utf8_bytes,
    modified_utf8_text,
    utf8_bytes,
    utf8_text,
)
from tests.wire.strategies import unhurried

any_text = st.text(st.characters(exclude_categories=()), max_size=30)


def java_modified_utf8(text: str) -> bytes:
    """The slow twin by the documentation of ``java.io.DataInput``: UTF-16 unit by unit."""
    raw = text.encode("utf-16-be", "surrogatepass")
    out = bytearray()
    for at in range(0, len(raw), 2):
        unit = int.from_bytes(raw[at : at + 2], "big")
        if 1 <= unit <= 0x7F:
            out.append(unit)
        elif unit <= 0x7FF:
            out += bytes([0xC0 | unit >> 6, 0x80 | unit & 0x3F])
        else:
            out += bytes([0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F])
    return bytes(out)


@given(any_text)
@unhurried
def test_modified_utf8_is_written_as_java_documents_it(text):
    assert modified_utf8_bytes(text) == java_modified_utf8(text)


@given(any_text)
@unhurried
def test_modified_utf8_reads_back_up_to_the_joining_of_surrogates(text):
    joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert modified_utf8_text(modified_utf8_bytes(text)) == joined


def test_overlong_forms_read_as_in_java():
    assert modified_utf8_text(b"\xc1\x81\xe0\x81\x81\x00") == "AA\0"


@pytest.mark.parametrize("raw", [b"\x80", b"\xbfa", b"\xc3", b"\xe4\xb8", b"\xc3a", b"\xe4a\x96", b"\xf0\x9d\x84\x9e"])
def test_modified_utf8_that_java_refuses_is_refused(raw):
    with pytest.raises(ValueError, match="begins no modified UTF-8 character"):
        modified_utf8_text(raw)


@given(st.binary(max_size=20))
@unhurried
def test_plain_utf8_is_read_from_any_bytes(raw):
    assert utf8_bytes(utf8_text(raw)) == raw.decode("utf-8", "replace").encode()


@pytest.mark.parametrize(
    ("kind", "value", "raw"),
    [
        ("int8", -2, "fe"),
        ("int16", -2, "fffe"),
        ("int32", 2**31 - 1, "7fffffff"),
        ("int64", -3, "fffffffffffffffd"),
        ("bytes", b"ab", "000000026162"),
        ("string", "é", "0002c3a9"),
        ("javaUtf", "\0", "0002c080"),
    ],
)
def test_a_field_has_these_bytes(kind, value, raw):
    field, out = PRIMITIVES[kind], bytearray()
    field.write(out, value)
    assert out.hex() == raw
    source = Source(bytes(out), "Message version 1")
    assert field.read(source, "field") == value
    assert source.left == 0


@pytest.mark.parametrize(
    ("kind", "value", "raw"),
    [
        ("string", None, "ffff"),
        ("string", "", "0000"),
        ("string", "a", "000161"),
        ("javaChars", None, "00000000"),
        ("javaChars", "a", "000000010061"),
        ("javaChars", "\U0001d11e", "00000002d834dd1e"),
    ],
)
def test_a_nullable_field_has_these_bytes(kind, value, raw):
    field, out = NULLABLES[kind], bytearray()
    field.write(out, value)
    assert out.hex() == raw
    assert field.read(Source(bytes(out), "Message version 1"), "field") == value


@pytest.mark.parametrize(
    ("kind", "raw", "why"),
    [
        ("bytes", "ffffffff", "a length of -1 is impossible, 0 bytes follow"),
        ("bytes", "7fffffff00", "a length of 2147483647 is impossible, 1 bytes follow"),
        ("string", "ffff", "a length of -1 is impossible"),
        ("javaUtf", "000261", "a length of 2 is impossible, 1 bytes follow"),
        ("javaUtf", "000180", "begins no modified UTF-8"),
        ("int64", "00", "needs 8 bytes, 1 are left"),
        ("uuid", "00", "needs 16 bytes, 1 are left"),
    ],
)
def test_a_field_that_cannot_be_read_is_named_with_its_place(kind, raw, why):
    source = Source(b"\0\0\0" + bytes.fromhex(raw), "Message version 9")
    source.step(3, "before")
    with pytest.raises(MalformedUserData, match=r"Message version 9: some\.field at byte [35]: .*") as caught:
        PRIMITIVES[kind].read(source, "some.field")
    assert why in str(caught.value)


@pytest.mark.parametrize("raw", ["fffe", "8000", "000261"])
def test_a_nullable_string_allows_only_the_length_minus_1(raw):
    with pytest.raises(MalformedUserData):
        NULLABLES["string"].read(Source(bytes.fromhex(raw), "Message version 1"), "field")


def test_a_count_of_utf16_units_is_checked_in_bytes():
    with pytest.raises(MalformedUserData, match="a length of 2 is impossible, 3 bytes follow"):
        NULLABLES["javaChars"].read(Source(bytes.fromhex("00000002006100"), "Message version 1"), "field")
