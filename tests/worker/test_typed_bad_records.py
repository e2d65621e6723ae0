"""Records that serdes cannot read are set aside as ``on_error`` says; others are processed once, as without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign import (
    Batch,
    RegistryError,
    Serde,
    Serdes,
    SerializationError,
    Subtopology,
    Task,
    TopologyTestDriver,
)
from kstreams_assign.worker.on_error import OnError

DEAD = "dead-letters"


@dataclass
class Payment:
    amount: int


def add_pairs(task: Task, payments: Batch) -> None:
    totals, out = task.store("totals", key=str, value=int), task.sink("out", key=str, value=int)
    for account, payment in payments.pairs(key=str, value=Payment):
        if account is None or payment is None:
            continue
        total = (totals.get(account) or 0) + payment.amount
        totals.put(account, total)
        out.emit(account, total)


def add_columns(task: Task, payments: Batch) -> None:
    """Write before it decodes, so that a batch has something to undo."""
    totals, out = task.store("totals", key=str, value=int), task.sink("out", key=str, value=int)
    totals.put("begun", 1)
    for account, payment in zip(payments.keys_as(str), payments.values_as(Payment), strict=True):
        if account is not None and payment is not None:
            totals.put(account, total := (totals.get(account) or 0) + payment.amount)
            out.emit(account, total)


def topology(function: Callable[[Task, Batch], None], on_error: OnError) -> list[Subtopology]:
    return [Subtopology(function, sources=["in"], stores=["totals"], sinks=["out"], on_error=on_error)]


GOOD = st.tuples(st.sampled_from([b"ann", b"bob"]), st.integers(0, 99).map(lambda n: b'{"amount": %d}' % n))
BAD = st.sampled_from([(b"ann", b"five"), (b"\xff", b'{"amount": 1}'), (b"bob", b'{"amount": "1"}'), (b"\xff", b"")])
INPUTS = st.lists(GOOD | BAD | st.just((None, None)) | st.just((b"ann", None)), max_size=40)


def is_bad(entry: tuple[bytes | None, bytes | None]) -> bool:
    return entry in {(b"ann", b"five"), (b"\xff", b'{"amount": 1}'), (b"bob", b'{"amount": "1"}'), (b"\xff", b"")}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("function", [add_pairs, add_columns])
def test_exactly_the_guilty_records_are_set_aside_once(function: Callable[..., None], guarantee: str) -> None:
    settings = {"processing_guarantee": guarantee, "errors_dead_letter_queue_topic_name": DEAD}

    def run(inputs: Sequence[tuple[bytes | None, bytes | None]]) -> tuple[list[object], ...]:
        with TopologyTestDriver(topology(function, "dead_letter"), **settings) as driver:
            driver.pipe_many("in", inputs)
            dead = driver.read(DEAD) if any(map(is_bad, inputs)) else []
            state = [entry for entry in driver.store("totals").range() if entry[0] != b"begun"]
            return [(r.key, r.value) for r in driver.read("out")], state, [(r.key, r.value) for r in dead]

    @given(INPUTS)
    def play(inputs: list[tuple[bytes | None, bytes | None]]) -> None:
        outputs, state, dead = run(inputs)
        assert dead == list(filter(is_bad, inputs))
        assert (outputs, state, []) == run([entry for entry in inputs if not is_bad(entry)])

    play()


def test_the_dead_letter_says_which_bytes_were_expected() -> None:
    with TopologyTestDriver(topology(add_pairs, "dead_letter"), errors_dead_letter_queue_topic_name=DEAD) as driver:
        driver.pipe("in", b"ann", b"five")
        (letter,) = driver.read(DEAD)
    headers = dict(letter.headers or ())
    assert headers["__streams.errors.exception"] == b"kstreams_assign.errors.SerializationError"
    message = headers["__streams.errors.message"] or b""
    assert message.startswith(b"in-0 at offset 0: the value cannot be read as JSON of Payment: 4 bytes b'five': ")
    assert headers["__streams.errors.offset"] == b"0"


def test_on_error_sees_the_record_and_the_error() -> None:
    seen = []

    def on_error(record: object, error: Exception) -> str:
        seen.append((record, error))
        return "skip"

    with TopologyTestDriver(topology(add_pairs, on_error)) as driver:
        driver.pipe("in", b"ann", b"five", timestamp_ms=9)
    ((record, error),) = seen
    assert isinstance(error, SerializationError)
    assert (error.offset, error.field, error.data) == (0, "value", b"five")
    assert record.value == error.data


def test_without_on_error_the_worker_ends_with_the_error_and_a_note() -> None:
    with TopologyTestDriver(topology(add_pairs, "fail")) as driver:
        with pytest.raises(SerializationError, match="in-0 at offset 0: the value cannot be read") as raised:
            driver.pipe("in", b"ann", b"five")
        assert raised.value.__notes__ == ["task 0_0, in-0 at offset 0 (batch of 1 record)"]


def test_a_registry_in_trouble_sets_no_record_aside() -> None:
    def refuse(_data: bytes) -> Payment:
        raise RegistryError("no answer")

    serde = Serde("Avro", Serdes.json.serialize, refuse)

    def add(_task: Task, payments: Batch) -> None:
        payments.values_as(serde)

    with TopologyTestDriver(topology(add, "skip")) as driver, pytest.raises(RegistryError, match="no answer"):
        driver.pipe("in", b"ann", b"")
