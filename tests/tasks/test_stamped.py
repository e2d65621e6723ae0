"""Values of timestamped stores, one at a time and many at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.tasks.stamped import ValueAndTime, stamped, stamped_all, value_and_time, value_of

times = st.integers(-1, 2**63 - 1)


def test_the_bytes_are_those_of_javas_value_and_timestamp_serializer() -> None:
    assert stamped(b"v", 1_700_000_000_123) == b"\x00\x00\x01\x8b\xcf\xe5\x68\x7bv"


@given(value=st.binary(max_size=20), time_ms=times)
def test_a_value_and_its_time_come_back(value: bytes, time_ms: int) -> None:
    assert value_and_time(stamped(value, time_ms)) == ValueAndTime(value, time_ms)
    assert value_of(stamped(value, time_ms)) == value


@given(st.lists(st.tuples(st.none() | st.binary(max_size=5), times), max_size=20))
def test_many_at_once_are_as_one_by_one_and_tombstones_stay(records: list[tuple[bytes | None, int]]) -> None:
    wanted = [None if value is None else stamped(value, at) for value, at in records]
    assert list(stamped_all([value for value, _ in records], [at for _, at in records])) == wanted
