"""The two clocks of a lease."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.group.lease import Lease


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=8), st.integers(1, 50), st.integers(1, 50))
def test_a_lease_ends_when_the_first_of_two_clocks_does(
    answers: list[tuple[int, bool]], session_ms: int, rebalance_ms: int
) -> None:
    lease = Lease()
    for sent_ms, settled in answers:
        lease.renew(sent_ms, settled=settled)
    settled_ms = [sent_ms for sent_ms, settled in answers if settled]
    expected = (
        min(max(sent_ms for sent_ms, _ in answers) + session_ms, max(settled_ms) + rebalance_ms) if settled_ms else None
    )
    assert lease.ends_ms(session_ms, rebalance_ms) == expected
    lease.end()
    assert lease.ends_ms(session_ms, rebalance_ms) is None
