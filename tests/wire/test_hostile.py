"""Cut, padded, flipped and hostile bytes: refused with one error, in time and memory proportional to their size."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.wire import decode_assignment, decode_subscription
from tests.wire.golden import blobs, cases, name
from tests.wire.strategies import unhurried

DECODE = {"subscription": decode_subscription, "assignment": decode_assignment}
PLACE = re.compile(r"(SubscriptionInfo|AssignmentInfo)( version \d+)?: [a-z_.]+ (at|before) byte \d+: .+", re.DOTALL)

each_kind = pytest.mark.parametrize("kind", DECODE)
each_case = pytest.mark.parametrize(
    ("kind", "case"), [pytest.param(kind, case, id=f"{kind}-{name(case)}") for kind in DECODE for case in cases(kind)]
)


def refused(kind: str, data: bytes) -> bool:
    """Return whether these bytes are refused; any other error fails the test."""
    try:
        DECODE[kind](data)
    except MalformedUserData as error:
        text = str(error)
    else:
        return False
    assert PLACE.fullmatch(text), text
    return True


@each_case
def test_bytes_that_were_cut_anywhere_are_refused(kind, case):
    whole = bytes.fromhex(case["hex"])
    for end in range(0, len(whole), 1 + len(whole) // 200):
        assert refused(kind, whole[:end]), end


@each_case
def test_padding_is_reported_and_harmless(kind, case):
    whole = bytes.fromhex(case["hex"])
    for padding in (b"\0", b"KSA", b"KSA\x01", bytes(100)):
        read = DECODE[kind](whole + padding)
        assert read.trailer is None
        assert f"the {len(padding)} bytes after the last field are not a valid trailer" in read.trailer_warning


@each_kind
@given(data=st.data())
@unhurried
def test_flipped_bits_are_refused_or_read(kind, data):
    blob = bytearray(data.draw(st.sampled_from(blobs(kind))))
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, 8 * len(blob) - 1))
        blob[bit // 8] ^= 1 << bit % 8
    refused(kind, bytes(blob))


@each_kind
@given(version=st.integers(-2, 13), rest=st.binary(max_size=200))
@unhurried
def test_any_bytes_are_refused_or_read(kind, version, rest):
    refused(kind, version.to_bytes(4, "big", signed=True) + rest)


@each_kind
@pytest.mark.parametrize("count", [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00010000])
def test_a_hostile_length_anywhere_costs_no_memory(kind, count):
    """Each place of a message is overwritten with a huge or negative length."""
    blob = bytes.fromhex(cases(kind)[-4]["ours"])
    hostile = [blob[:at] + count.to_bytes(4, "big") + blob[at + 4 :] for at in range(0, len(blob) - 4, 3)]
    for damaged in hostile:
        refused(kind, damaged)
    tracemalloc.start()
    try:
        for damaged in hostile:
            refused(kind, damaged)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100 * len(blob) + 100_000


@pytest.mark.timeout(30)
@each_kind
@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("filling", [b"\0\0\0\1", b"\0\0\0\0", b"\0\1\0\0"])
def test_a_megabyte_of_nonsense_is_refused_quickly(kind, version, filling):
    """Bytes that announce as many and as small items as they can."""
    refused(kind, version.to_bytes(4, "big") + b"\0\0\0\x0b" + filling * (1 << 18))


def int32s(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in numbers)


MANY = 10_000
TINY_THINGS = {
    "hosts": ("assignment", int32s(11, 11, 0, 0, 0, MANY), b"\0\0", (0,), int32s(0, 0, 0, 0)),
    "standbys": ("assignment", int32s(9, 11, 0, MANY), b"", (0, 0), int32s(0, 0, 0, 0, 0, 0)),
    "subtopologies": ("subscription", int32s(7, 11, 0, 0, 0, 0, 0, MANY), b"", (0,), b""),
}


@pytest.mark.parametrize("tiny", TINY_THINGS)
def test_many_tiny_items_cost_proportional_memory(tiny):
    """In the worst case well-formed bytes cost fifty bytes of memory for each of theirs."""
    kind, head, before, after, tail = TINY_THINGS[tiny]
    blob = head + b"".join(before + int32s(n, *after) for n in range(MANY)) + tail
    tracemalloc.start()
    try:
        DECODE[kind](blob)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100 * len(blob)


@each_kind
def test_negative_counts_are_refused_although_java_reads_on(kind):
    """Java treats a negative number of hosts as none; no release writes that."""
    blob = bytes.fromhex(cases(kind)[-1]["hex"])
    at = {"subscription": 24, "assignment": 8}[kind]
    assert refused(kind, blob[:at] + b"\xff\xff\xff\xff" + blob[at + 4 :])
