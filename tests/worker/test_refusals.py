"""Which of a commit's outputs a refusal is about, and whose input is set aside for it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kstreams_assign import Config
from kstreams_assign.adapters.confluent.flight import Lost
from kstreams_assign.errors import KStreamsAssignError, RecordRefused
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import Row, Taken
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.worker.bad_records import BadRecords
from kstreams_assign.worker.refusals import Refusals
from kstreams_assign.worker.running import Work
from kstreams_assign.worker.shares import Share

NOW_MS, YEAR_2100_MS = 1_700_000_000_000, 4_102_444_800_000
SKIPPING, FAILING = TaskId(0, 0), TaskId(1, 0)


@pytest.fixture
def bad_records() -> BadRecords:
    bad_records = BadRecords(["skip", "fail"], Config(application_id="app", bootstrap_servers="localhost:1"))
    bad_records.bytes_max_of = lambda _topic: 1_000
    return bad_records


def share(task: TaskId, *emitted: Row) -> Share:
    return Share(task, MemoryStores(["s"]), {}, frozenset(), Work(Taken({}, {}, emitted), {}, {}), lambda: None)


def row(value: bytes, time_ms: int = NOW_MS, trace: bytes = b"") -> Row:
    return "out", b"k", value, (("trace", trace),), None, time_ms


def lost(value: bytes, code: int) -> KStreamsAssignError:
    """What the delivery report of a single record brings."""
    return Lost.of("out", 0, b"k", value, None, KafkaError(code)).fault("1 records lost")


def test_one_bad_timestamp_refuses_none_of_the_good_outputs(bad_records: BadRecords) -> None:
    bad, good = row(b"1", YEAR_2100_MS), [row(b"2"), row(b"2", YEAR_2100_MS), row(b"1")]
    refused = lost(b"1", KafkaError.INVALID_TIMESTAMP)
    Refusals(bad_records.remember_refusal).check([share(SKIPPING, bad, *good[:2]), share(FAILING, good[0])], refused)
    bad_records.refuse_outputs(good)
    with pytest.raises(RecordRefused):
        bad_records.refuse_outputs([bad])


def test_an_output_that_headers_make_too_large_is_set_aside(bad_records: BadRecords) -> None:
    """Also if the broker refuses it: its delivery report has no headers."""
    large, small = row(b"v", trace=bytes(1_000)), row(b"v")
    Refusals(bad_records.remember_refusal).check([share(SKIPPING, large)], lost(b"v", KafkaError.MSG_SIZE_TOO_LARGE))
    bad_records.refuse_outputs([small])
    with pytest.raises(RecordRefused):
        bad_records.refuse_outputs([large])


def test_the_error_names_the_tasks_that_may_have_emitted_the_output(bad_records: BadRecords) -> None:
    refused = lost(b"1", KafkaError.INVALID_TIMESTAMP)
    shares = [share(task, row(b"1", YEAR_2100_MS)) for task in (SKIPPING, FAILING)]
    with pytest.raises(RecordRefused, match="task 0_0 or 1_0: 1 records lost"):
        Refusals(bad_records.remember_refusal).check(shares, refused)
    bad_records.refuse_outputs([row(b"1", YEAR_2100_MS)])
