"""Requests against the protocol's own description: each op, each field, each error code."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import kstreams_assign.sidecar
from kstreams_assign.errors import SidecarRefused
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sidecar.client import InputRecord, rejection
from kstreams_assign.sidecar.messages import ERROR_CODES, EVENTS, ID_MAX, PROTOCOL, read_request
from kstreams_assign.sidecar.poll import Batch, as_records
from kstreams_assign.sidecar.server import HELLO_TIMEOUT_S
from kstreams_assign.sidecar.session import OUTSTANDING_MAX
from kstreams_assign.tasks.record import Record
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, VERSION, Message, pack, unpack

GOOD = {
    "integer": 1,
    "integers": (0, 1),
    "boolean": True,
    "text": "orders",
    "timer_name": "",
    "task": "0_3",
    "bytes": b"k",
    "bytes_list": (b"k",),
    "nullable_bytes_list": (b"k", None),
    "entries": ((b"k", b"v"),),
    "records": ({"topic": "t", "key": b"k", "value": None, "headers": (("h", None),), "partition": 1},),
    "input_record": {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp_ms": 1,
        "key": None,
        "value": b"v",
        "headers": (("h", None),),
    },
    "long_text": "x" * 65_536,
    "offsets": {"orders-eu-3": 7},
}
_RECORD = {"topic": "t", "partition": 0, "offset": 7, "timestamp_ms": 1, "key": None, "value": b"v"}
BAD = {
    "integer": ("1", 1.0, True, -1, 2**40),
    "integers": (1, ("1",), (1, -1), (2**63,), {1: 1}),
    "boolean": (1, "true"),
    "text": ("", b"orders", "x" * 256, 7),
    "timer_name": ("x" * 256, "é" * 128, "\ud800", b"n", 7),
    "task": ("0", "0_x", "a_b", 3, "_"),
    "bytes": ("k", 7),
    "bytes_list": (b"k", ("k",), (None,), {"k": 1}),
    "nullable_bytes_list": (("k",), 7),
    "entries": (((b"k",),), ((b"k", None),), (("k", b"v"),), (b"kv",), {b"k": b"v"}),
    "records": (
        ({},),
        ({"topic": "t", "key": b"k"},),
        ({"topic": "t", "key": "k", "value": b"v"},),
        ({"topic": "t", "key": b"k", "value": b"v", "partition": -1},),
        ({"topic": "t", "key": b"k", "value": b"v", "timestamp_ms": 2**63},),
        ({"topic": "t", "key": b"k", "value": b"v", "timestamp_ms": -2},),
        ({"topic": "t", "key": b"k", "value": b"v", "headers": ((b"h", b"v"),)},),
        ({"topic": "t", "key": b"k", "value": b"v", "headers": (("h", "v"),)},),
        ({"topic": "t", "key": b"k", "value": b"v", "more": 1},),
        (7,),
    ),
    "input_record": (
        {},
        7,
        {**_RECORD, "offset": None},
        {**_RECORD, "offset": -1},
        {**_RECORD, "partition": True},
        {**_RECORD, "timestamp_ms": "1"},
        {**_RECORD, "timestamp_ms": -2},
        {**_RECORD, "timestamp_ms": 2**63},
        {**_RECORD, "value": "v"},
        {**_RECORD, "headers": ((b"h", b"v"),)},
        {**_RECORD, "headers": ((None, b"v"),)},
        {**_RECORD, "headers": (("h",),)},
        {**_RECORD, "more": 1},
    ),
    "long_text": ("x" * 65_537, b"x", 7),
    "offsets": ({"orders": 7}, {"orders-x": 7}, {"orders-3": -1}, {"-3": 7}, {7: 7}, {"orders-3": "7"}, ()),
}
FIELDS = [(op, name, spec) for op, definition in PROTOCOL["ops"].items() for name, spec in definition["fields"].items()]


def whole(op: str, **changed: object) -> dict[str, object]:
    fields = {name: GOOD[spec["type"]] for name, spec in PROTOCOL["ops"][op]["fields"].items()}
    return {"id": 1, "op": op, **fields, **changed}


@pytest.mark.parametrize("op", PROTOCOL["ops"])
def test_a_request_with_every_field_of_its_op_is_read(op):
    request = read_request(whole(op))
    assert (request.id, request.op, request.fields.keys()) == (1, op, PROTOCOL["ops"][op]["fields"].keys())


@pytest.mark.parametrize(("op", "name", "spec"), FIELDS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_field_of_a_wrong_type_is_refused_by_name(op, name, spec):
    for value in BAD[spec["type"]]:
        shown = r"\(not shown\): " if spec.get("secret") else "= "
        with pytest.raises(SidecarRefused, match=f"{op}: {name} {shown}") as refused:
            read_request(whole(op, **{name: value}))
        assert refused.value.code == "bad_request"
        assert len(str(refused.value)) < 600


@pytest.mark.parametrize(("op", "name", "spec"), FIELDS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_missing_field_gets_its_default_or_none_or_is_refused(op, name, spec):
    message = whole(op)
    del message[name]
    if "default" in spec or spec.get("optional"):
        assert read_request(message).fields[name] == spec.get("default")
    else:
        with pytest.raises(SidecarRefused, match=f"{name} is missing"):
            read_request(message)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"id": 1},
        {"op": "tasks"},
        {"id": -1, "op": "tasks"},
        {"id": ID_MAX + 1, "op": "tasks"},
        {"id": True, "op": "tasks"},
    ]
    + [{"id": 1, "op": op} for op in ("", "drop", b"tasks", 7, None, ("tasks",))]
    + [{"id": 1, "op": "tasks", "task": "0_0"}],
    ids=repr,
)
def test_a_message_that_is_not_a_request_is_refused(message):
    with pytest.raises(SidecarRefused, match="bad_request"):
        read_request(message)


def over_the_wire(message: Message) -> Message:
    return unpack(pack(message))


@pytest.mark.parametrize(
    "record",
    [
        Record("orders", 3, 7, 5, b"k", b"v", [("", b"x")]),
        Record("orders", 3, 7, 5, b"k", b"v", [("n" * 70_000, None), ("h", b"x")]),
        Record("orders", 3, 7, -1, b"k", b"v"),
    ],
    ids=["an empty header name", "a long header name", "no time"],
)
def test_a_record_can_be_rejected_and_emitted_on_as_poll_brings_it(record):
    running = SimpleNamespace(task=SimpleNamespace(id=TaskId(0, 3)))
    answer = over_the_wire({"id": 1, "ok": as_records([Batch(running, TopicPartition("orders", 3), [record])])})
    (polled,) = [InputRecord(**fields) for fields in answer["ok"]["records"]]
    reject = {"id": 2, "op": "reject", **rejection(polled, "ValueError: bad", undo=False)}
    fields = read_request(over_the_wire(reject)).fields
    headers = None if record.headers is None else tuple(record.headers)
    assert (fields["task"], Record(**fields["record"])) == (TaskId(0, 3), record._replace(headers=headers))
    output = {name: getattr(polled, name) for name in ("key", "value", "headers", "timestamp_ms")}
    emit = {"id": 3, "op": "emit", "task": "0_3", "records": [{"topic": "out", **output}]}
    (emitted,) = read_request(over_the_wire(emit)).fields["records"]
    assert emitted == {"topic": "out", "key": b"k", "value": b"v", "headers": headers, "timestamp_ms": record[3]}


def test_clients_without_the_schema_have_the_same_numbers():
    assert (PROTOCOL["version"], PROTOCOL["frame_bytes_max"]) == (VERSION, FRAME_BYTES_MAX)


def test_the_protocol_names_the_limits_of_a_session():
    assert (PROTOCOL["requests_waiting_max"], PROTOCOL["hello_timeout_s"]) == (OUTSTANDING_MAX, HELLO_TIMEOUT_S)


def test_every_type_is_described_and_every_described_type_is_used():
    assert {spec["type"] for _, _, spec in FIELDS} | {"id"} == PROTOCOL["types"].keys() == GOOD.keys() | {"id"}


def test_the_worker_sends_every_code_and_event_of_the_closed_lists():
    room = Path(str(kstreams_assign.sidecar.__file__)).parent
    source = "".join(path.read_text(encoding="utf-8") for path in room.glob("*.py"))
    assert (
        set(re.findall(r'refused\(\s*"(\w+)"', source)) | set(re.findall(r'_refuse_all\(\w+, "(\w+)"', source))
        == ERROR_CODES
    )
    assert set(re.findall(r'_push\("(\w+)"', source)) == EVENTS


def test_an_impossible_token_is_refused_and_not_shown():
    for token in ("s3cret" * 50, 7, b"s3cret", ["s3cret"], ""):
        with pytest.raises(SidecarRefused) as raised:
            read_request({"id": 1, "op": "hello", "version": 1, "token": token})
        assert str(raised.value) == "bad_request: hello: token (not shown): must be str of 1 to 255 characters"
