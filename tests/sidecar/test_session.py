"""The session's machine: its table is complete, and every short sequence of actions keeps the promises."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.sidecar.messages import refused
from kstreams_assign.sidecar.session import (
    OUTSTANDING_MAX,
    TRANSITIONS,
    Do,
    HangUp,
    News,
    Opened,
    RollBack,
    Send,
    Session,
    State,
    Step,
)
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, VERSION, frame

DEEDS = ("hello", "strange hello", "work", "close", "wrong", "malformed", "silent", "gone", "stop", "answer")


class Life:
    """A session driven by actions, and everything it did."""

    def __init__(self) -> None:
        self.session = Session(self._greet)
        self.actions: list[object] = []
        self.asked: list[int] = []
        self.outstanding: list[int] = []
        self._number = 0

    def _greet(self, request):
        if request.fields["version"] != VERSION:
            raise refused("unsupported_version", "another")
        return {"hello": "there"}

    def live(self, deed: str) -> None:
        before = len(self.actions)
        if deed == "gone":
            self.actions += self.session.gone()
        elif deed == "silent":
            self.actions += self.session.silent("a while") if self.session.waits else []
        elif deed == "stop":
            self.actions += self.session.stop()
        elif deed == "answer":
            self._answer()
        else:
            self.actions += self.session.receive(self._bytes(deed))
        self.outstanding += [action.request.id for action in self.actions[before:] if isinstance(action, Do)]

    def _answer(self) -> None:
        if self.outstanding:
            number = self.outstanding.pop(0)
            self.actions += self.session.answered(number, {"id": number, "ok": 1})

    def _bytes(self, deed: str) -> bytes:
        if deed == "malformed":
            return b"\xff\xff\xff\xff"
        self._number += 1
        if self.session.state is not State.CLOSED:
            self.asked.append(self._number)
        extra = {
            "hello": {"op": "hello", "version": VERSION},
            "strange hello": {"op": "hello", "version": VERSION + 1},
            "work": {"op": "tasks"},
            "close": {"op": "close"},
            "wrong": {"op": "get", "task": 7},
        }[deed]
        return frame({"id": self._number, **extra})

    def check(self) -> None:
        kinds = [type(action) for action in self.actions]
        replies = [action.message["id"] for action in self.actions if isinstance(action, Send)]
        numbered = [number for number in replies if number is not None]
        assert len(numbered) == len(set(numbered)), "a request has one answer"
        assert set(numbered) <= set(self.asked)
        assert kinds.count(Opened) <= 1
        assert kinds.count(HangUp) == (self.session.state is State.CLOSED)
        assert kinds.count(RollBack) == (Opened in kinds and HangUp in kinds), "an open session leaves nothing behind"
        if Do in kinds:
            assert kinds.index(Opened) < kinds.index(Do)
        if HangUp in kinds:
            assert kinds.index(HangUp) == len(kinds) - 1, "nothing is done or sent after the end"
        else:
            assert sorted(numbered + self.outstanding) == self.asked, "no request is forgotten"


def test_the_table_has_a_row_for_every_state_and_news():
    assert set(TRANSITIONS) == set(product(State, News))


def test_every_state_and_step_is_reached():
    reached = {State.NEW} | {state for state, _ in TRANSITIONS.values()}
    assert reached == set(State)
    assert {step for _, steps in TRANSITIONS.values() for step in steps} == set(Step)


def test_an_open_session_is_rolled_back_however_it_ends():
    for (before, _), (after, steps) in TRANSITIONS.items():
        ends = after is State.CLOSED and before is not State.CLOSED
        assert (Step.HANG_UP in steps) == ends
        assert (Step.ROLL_BACK in steps) == (ends and before in (State.OPEN, State.CLOSING))


def test_every_sequence_of_four_actions_keeps_the_promises():
    for deeds in product(DEEDS, repeat=4):
        life = Life()
        for deed in deeds:
            life.live(deed)
        life.check()


@given(st.lists(st.sampled_from(DEEDS), max_size=30))
def test_long_sequences_keep_the_promises_too(deeds):
    life = Life()
    life.live("hello")
    for deed in deeds:
        life.live(deed)
    life.check()


def test_an_open_session_is_answered_in_full_before_the_worker_hangs_up():
    life = Life()
    for deed in ("hello", "work", "work", "stop", "answer"):
        life.live(deed)
    assert life.session.state is State.CLOSING
    life.live("answer")
    assert life.session.state is State.CLOSED


def test_reading_pauses_while_too_many_requests_wait_for_answers():
    life = Life()
    life.live("hello")
    stream = b"".join(frame({"id": 100 + n, "op": "tasks"}) for n in range(OUTSTANDING_MAX + 5))
    done = [action for action in life.session.receive(stream) if isinstance(action, Do)]
    assert len(done) == OUTSTANDING_MAX
    assert life.session.satiated
    then = life.session.answered(100, {"id": 100, "ok": 1})
    assert [type(action) for action in then] == [Send, Do]


def test_reading_pauses_while_the_requests_that_wait_for_answers_are_large():
    life = Life()
    life.live("hello")
    get = {"op": "get", "task": "0_0", "store": "s", "keys": [bytes(9 << 20)]}
    requests = ({"id": 100, **get}, {"id": 101, **get}, {"id": 102, "op": "tasks"})
    done = [action.request.id for request in requests for action in life.session.receive(frame(request))]
    assert done == [100, 101]
    assert life.session.satiated
    (_, then) = life.session.answered(100, {"id": 100, "ok": 1})
    assert then.request.id == 102
    assert not life.session.satiated, "9 MiB wait, and a small request"


def test_a_large_request_that_is_refused_does_not_pause_reading():
    life = Life()
    life.live("hello")
    (refusal,) = life.session.receive(frame({"id": 100, "op": "get", "keys": [bytes(FRAME_BYTES_MAX - 30)]}))
    assert refusal.message["error"]["code"] == "bad_request"
    (poll,) = life.session.receive(frame({"id": 101, "op": "poll"}))
    assert poll.request.id == 101
    assert not life.session.satiated


def test_an_id_cannot_be_used_again_before_its_answer():
    life = Life()
    life.live("hello")
    life.session.receive(frame({"id": 9, "op": "tasks"}))
    (answer,) = life.session.receive(frame({"id": 9, "op": "tasks"}))
    assert answer.message["error"]["code"] == "bad_request"


@pytest.mark.parametrize(
    ("deeds", "code"),
    [
        (["work"], "hello_first"),
        (["strange hello"], "unsupported_version"),
        (["hello", "hello"], "hello_twice"),
        (["hello", "wrong"], "bad_request"),
        (["hello", "malformed"], "malformed"),
        (["hello", "work", "close", "work"], "closing"),
    ],
)
def test_the_refusal_names_its_reason(deeds, code):
    life = Life()
    for deed in deeds:
        life.live(deed)
    errors = [
        action.message["error"]["code"]
        for action in life.actions
        if isinstance(action, Send) and "error" in action.message
    ]
    assert errors == [code]
