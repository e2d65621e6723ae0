"""A session that commits offsets by name, over an input with markers of transactions, of which it does not know."""

from __future__ import annotations

from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.input_offsets import Passed
from tests.sidecar.stand import INPUT, Stand, polled


def commit(stand: Stand, offset: int) -> object:
    """Commit this next offset to the end, and return the answer; the loop passes over what is no record meanwhile."""
    number = stand.ask("commit", offsets={str(INPUT): offset})
    if stand.handler.wants_commit():
        stand.commit_begins()
        stand.handler.commit_ends(CommitEnd.DONE)
    return stand.port.answers[number]


def test_the_offset_behind_the_last_record_may_be_named_again(stand: Stand) -> None:
    polled(stand, 10, 2)
    assert commit(stand, 12) == 7
    stand.running.offsets.pass_over(INPUT, Passed(12, 13))
    for _ in range(2):
        stand.put(b"k")
        assert commit(stand, 12) == 7
        assert stand.running.offsets.done_to() == {INPUT: 13}, "it does not go back"
    assert commit(stand, 11) == commit(stand, 14) == "bad_offset"


def test_the_last_record_that_is_done_may_be_named_while_later_ones_are_not(stand: Stand) -> None:
    polled(stand, 10, 2)
    assert commit(stand, 12) == 7
    stand.running.offsets.pass_over(INPUT, Passed(12, 13))
    polled(stand, 13, 2)
    assert commit(stand, 12) == 7
    assert commit(stand, 14) == 7
    assert stand.running.offsets.done_to() == {INPUT: 14}
