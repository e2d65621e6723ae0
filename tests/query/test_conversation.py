"""A connection at the query endpoint without a socket: proofs, hostile messages, and messages that round-trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import MalformedFrame, QueryRefused
from kstreams_assign.query.conversation import Asked, Conversation, Reply
from kstreams_assign.query.messages import (
    ERROR_CODES,
    Found,
    Get,
    Owners,
    Reason,
    Refused,
    Role,
    Unanswered,
    answer_message,
    get_message,
    proof,
    read_answer,
    read_get,
)
from kstreams_assign.wire.framing import frame, unpack

TOKEN = "correct horse battery"
THEIRS, MINE = b"s" * 32, b"c" * 32


def hello(token=TOKEN, **fields):
    proved = proof(token, "client", THEIRS, MINE)
    return {"id": 0, "op": "hello", "version": 1, "nonce": MINE, "proof": proved, **fields}


def over_the_wire(message):
    return unpack(frame(message)[4:])


@pytest.mark.parametrize("token", [TOKEN, None])
def test_both_sides_prove_that_they_know_the_token(token):
    conversation = Conversation("app", token, THEIRS)
    assert conversation.opening() == {"version": 1, "nonce": THEIRS}
    reply = conversation.take(hello(token, application_id="app"))
    assert reply == Reply({"id": 0, "ok": {"application_id": "app", "proof": proof(token, "server", THEIRS, MINE)}})
    assert conversation.take(get_message(1, Get("s", b"k"))) == Asked(1, Get("s", b"k"))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (hello(token="another horse battery"), "unauthorized"),
        (hello(token=None), "unauthorized"),
        (hello() | {"proof": proof(TOKEN, "server", THEIRS, MINE)}, "unauthorized"),  # the worker's own, sent back
        (hello() | {"nonce": b"d" * 32}, "unauthorized"),
        (hello() | {"nonce": b""}, "bad_request"),
        (hello() | {"proof": "text"}, "bad_request"),
        (hello(version=2), "unsupported_version"),
        (hello(application_id="other"), "wrong_application"),
        (get_message(0, Get("s", b"k")), "unauthorized"),
    ],
)
def test_a_client_that_is_not_let_in_gets_one_error_and_asks_nothing(message, code):
    conversation = Conversation("app", TOKEN, THEIRS)
    reply = conversation.take(message)
    assert isinstance(reply, Reply)
    assert (reply.message["error"]["code"], reply.hang_up, conversation.is_open) == (code, True, False)
    assert TOKEN not in str(reply.message)


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=300) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(["id", "op", "store", "key", "partition", "max_lag", "timeout_ms", "nonce", "proof", "x"])
ops = st.sampled_from(["get", "hello", "put"])


@given(st.lists(st.dictionaries(names, junk | ops, max_size=7), max_size=4), st.booleans())
def test_hostile_messages_get_one_error_each_and_nobody_is_let_in_without_a_proof(messages, is_open):
    conversation = Conversation("app", TOKEN, THEIRS)
    if is_open:
        conversation.take(hello())
    for message in messages:
        step = conversation.take(message)
        if isinstance(step, Asked):
            assert is_open
            assert isinstance(step.get.key, bytes)
        else:
            assert step.message["error"]["code"] in ERROR_CODES
    assert conversation.is_open is is_open


gets = st.builds(
    Get,
    st.text(min_size=1, max_size=255),
    st.binary(),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.integers(0, 2**63 - 1),
    st.integers(0, 60_000),
)
found = st.builds(
    Found,
    st.none() | st.binary(),
    st.sampled_from(Role),
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)
owners = st.builds(Owners, st.integers(-1, 2**31), st.none() | st.text(), st.lists(st.text(), max_size=3).map(tuple))
unanswered = st.builds(
    Unanswered,
    st.sampled_from(Reason),
    st.text(),
    st.none() | owners,
    st.none() | st.integers(0, 2**63 - 1),
    st.integers(0, 60_000),
)
refused = st.builds(Refused, st.sampled_from(sorted(ERROR_CODES - set(Reason))), st.text())


@given(gets)
def test_a_query_is_read_as_it_was_written(get):
    assert read_get(over_the_wire(get_message(5, get))) == get


@given(found | unanswered | refused)
def test_an_answer_is_read_as_it_was_written(answer):
    assert read_answer(over_the_wire(answer_message(5, answer)), 5) == answer


@given(st.dictionaries(st.sampled_from(["id", "ok", "error"]), junk, max_size=3))
def test_an_answer_of_a_process_that_is_no_worker_is_one_error(message):
    with pytest.raises(MalformedFrame):
        read_answer(message, 5)


@pytest.mark.parametrize(
    ("field", "value"),
    [("key", "text"), ("key", None), ("store", ""), ("store", b"s"), ("partition", -1), ("max_lag", True), ("x", 1)],
)
def test_a_wrong_field_is_named(field, value):
    with pytest.raises(QueryRefused, match=f"bad_request: .*{field}"):
        read_get(get_message(1, Get("s", b"k")) | {field: value})
