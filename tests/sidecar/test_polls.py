"""What a poll brings: records that do not fit into a frame, and polls that were sent before a task returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.events import RecordSetAsideEvent
from kstreams_assign.model import TopicPartition
from kstreams_assign.sidecar.ops import TIMER_KEY_BYTES_MAX
from kstreams_assign.sidecar.poll import POLLED_BYTES_MAX, Batch, as_columns, as_records, split
from kstreams_assign.sidecar.server import _fitting
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.dead_letters import LEFT_OUT
from kstreams_assign.tasks.record import Record
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, frame, unpack
from kstreams_assign.worker.on_error import OnError
from tests.sidecar import test_timers
from tests.sidecar.stand import INPUT, OTHER_INPUT, SHAPE, TASK, Port, Stand, dead_letters, reject

LENGTH_BYTES = 4
FITS, TOO_LARGE = bytes(FRAME_BYTES_MAX - 4_500), bytes(FRAME_BYTES_MAX)


class FramingPort(Port):
    """A port whose answers go through a frame, as the server's do; ``errors`` has the texts of refusals."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[int, str] = {}

    def answer(self, number: int, message: dict[str, Any]) -> None:
        received = unpack(_fitting(message)[LENGTH_BYTES:])
        super().answer(number, received)
        if "error" in received:
            self.errors[number] = received["error"]["message"]


class PollStand(Stand):
    """A stand that polls, and brings values."""

    def __init__(self, folder: Path, on_error: OnError) -> None:
        super().__init__(open_task_stores(folder, ["totals", "stamped"], timestamped=SHAPE.timestamped), on_error)
        self.open()

    def open(self) -> None:
        self.framing_port = self.port = FramingPort()
        self.handler.open(self.port)

    def bring_values(self, offset: int, *values: bytes) -> None:
        self.handler.work(
            self.running, INPUT, [Record("orders", 0, offset + n, 5, b"k", value) for n, value in enumerate(values)]
        )
        self.handler.turn()

    def poll(self, **fields: object) -> Any:
        """Return the offsets of the records that a poll brings, its refusal, or None while it waits."""
        return self.answer_of(self.ask("poll", timeout_ms=60_000, **fields))

    def answer_of(self, number: int) -> Any:
        answer = self.port.answers.get(number)
        return [record["offset"] for record in answer["records"]] if isinstance(answer, dict) else answer


@pytest.fixture(params=["fail"])
def stand(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PollStand]:
    made = PollStand(tmp_path / "store", request.param)
    with closing(made.stores):
        yield made


setting_aside = pytest.mark.parametrize("stand", ["skip", "dead_letter"], indirect=True)
to_dead_letters = pytest.mark.parametrize("stand", ["dead_letter"], indirect=True)


# --- a record that does not fit into a frame --------------------------------------------------------


@setting_aside
def test_a_record_that_fits_no_frame_is_set_aside_and_leaves_with_the_commit_of_its_offset(stand: PollStand) -> None:
    first = stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, b"v", TOO_LARGE, b"v")
    assert stand.answer_of(first) == [10]
    assert stand.poll() == [12]
    stand.ask("commit", offsets={"orders-0": 10})
    assert dead_letters(stand) == []
    stand.commit_begins()
    stand.handler.commit_ends(CommitEnd.DONE)
    stand.ask("commit", offsets={"orders-0": 11})
    is_kept = stand.bad_records._on_error == ["dead_letter"]
    assert dead_letters(stand) == [b"11"] * is_kept
    assert stand.commit_begins()[1] == {INPUT: 12}
    stand.handler.commit_ends(CommitEnd.DONE)
    stand.ask("commit")
    assert stand.commit_begins()[1] == {INPUT: 13}
    assert stand.bad_records.dropped() == {TASK: 1}
    (event,) = (event for event in stand.reported if isinstance(event, RecordSetAsideEvent))
    assert (event.offset, event.response) == (11, "dead_letter" if is_kept else "skip")
    assert "too_large: orders-0 at offset 11: has 16,777," in event.reason


@to_dead_letters
def test_the_dead_letter_of_such_a_record_names_what_it_lacks(stand: PollStand) -> None:
    stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, TOO_LARGE)
    stand.ask("commit")
    (letter,) = stand.running.workspace.unsent()
    assert dict(letter[3])[LEFT_OUT] == b"value of 16,777,216 bytes"


@to_dead_letters
def test_a_poll_that_meets_only_such_a_record_waits_for_the_next(stand: PollStand) -> None:
    number = stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, TOO_LARGE)
    assert number not in stand.port.answers
    assert stand.handler.appetite() == 99, "it counts as polled"
    stand.bring_values(11, b"v")
    assert stand.answer_of(number) == [11]


@to_dead_letters
def test_a_session_that_ends_leaves_such_a_record_to_the_next(stand: PollStand) -> None:
    stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, TOO_LARGE)
    stand.handler.leave(stand.port)
    assert stand.rewound == {INPUT: 10}
    stand.open()
    stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, TOO_LARGE)
    stand.ask("commit")
    assert dead_letters(stand) == [b"10"]
    assert stand.commit_begins()[1] == {INPUT: 11}


@to_dead_letters
def test_undo_reaches_behind_such_a_record(stand: PollStand) -> None:
    """The session has not polled since, as far as it knows."""
    stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, b"v")
    stand.put(b"of 10")
    stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(11, TOO_LARGE)
    assert reject(stand, 10, undo=True) == {"response": "dead_letter", "undone": True}
    stand.ask("commit")
    assert stand.commit_begins() == (set(), {INPUT: 12})


def test_where_nothing_is_set_aside_the_poll_is_refused_and_the_record_is_not_committed(stand: PollStand) -> None:
    first = stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, b"v", TOO_LARGE, b"v")
    assert stand.answer_of(first) == [10]
    assert [stand.poll(), stand.poll()] == ["too_large"] * 2, "it stays the next"
    text = stand.framing_port.errors[max(stand.port.answers)]
    assert text.startswith("orders-0 at offset 11: has 16,777,")
    assert text.endswith("set on_error of subtopology 0 to 'skip' or 'dead_letter' to go on behind it")
    stand.ask("commit")
    assert stand.commit_begins()[1] == {INPUT: 11}
    stand.handler.commit_ends(CommitEnd.DONE)
    stand.handler.leave(stand.port)
    assert stand.rewound == {INPUT: 11}


@setting_aside
def test_such_records_at_the_end_leave_with_the_offset_before_them(stand: PollStand) -> None:
    """A session that commits the offsets that it has seen cannot name theirs."""
    stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, b"v", b"v", TOO_LARGE, TOO_LARGE)
    stand.ask("poll", timeout_ms=60_000)
    stand.ask("commit", offsets={"orders-0": 11})
    assert stand.commit_begins()[1] == {INPUT: 11}, "record 11 is not committed, nor what is behind it"
    stand.handler.commit_ends(CommitEnd.DONE)
    stand.ask("commit", offsets={"orders-0": 12})
    letters = dead_letters(stand)
    assert stand.commit_begins()[1] == {INPUT: 14}
    assert letters == [b"12", b"13"] * (stand.bad_records._on_error == ["dead_letter"])


@setting_aside
def test_such_a_record_that_nothing_precedes_leaves_with_any_commit(stand: PollStand) -> None:
    stand.ask("poll", timeout_ms=60_000)
    stand.bring_values(10, TOO_LARGE)
    stand.ask("commit", offsets={})
    assert stand.commit_begins()[1] == {INPUT: 11}
    stand.handler.leave(stand.port)
    assert stand.rewound == {}


# --- as much as fits --------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [False, True])
def test_the_largest_record_that_fits_comes_alone(stand: PollStand, columns: bool) -> None:
    brought = []
    number = stand.ask("poll", columns=columns, timeout_ms=60_000)
    stand.bring_values(10, b"v", FITS, FITS, b"v")
    while number in stand.port.answers:
        answer = stand.port.answers[number]
        brought.append(
            [*answer["partitions"][0]["offset"]] if columns else [each["offset"] for each in answer["records"]]
        )
        number = stand.ask("poll", columns=columns, timeout_ms=60_000)
    assert brought == [[10], [11], [12], [13]]


def test_a_large_record_comes_with_as_many_timers_as_fit() -> None:
    stand = test_timers.Stand()
    stand.port = FramingPort()
    stand.handler.open(stand.port)
    stand.set({b"%d" % n + bytes(TIMER_KEY_BYTES_MAX - 2): 1 for n in range(10, 20)})
    value = bytes(FRAME_BYTES_MAX - 5 * TIMER_KEY_BYTES_MAX)
    stand.handler.work(stand.running, INPUT, [Record("orders", 0, 10, 5, b"k", value)])
    answer = stand.ask("poll", max_timers=10)
    assert answer != "too_large"
    assert len(answer["records"]) == 1
    assert 0 < len(answer["timers"]) < 5
    assert len(answer["timers"]) + len(stand.poll()) == 10


@pytest.mark.parametrize("answer", [as_records, as_columns])
def test_many_small_records_of_a_topic_with_a_long_name_fit_into_a_frame(stand: PollStand, answer: Any) -> None:
    topic = "t" * 249
    records = [Record(topic, 2**30, 2**62 + n, 2**62, b"", b"") for n in range(100_000)]
    batch, _, _ = split(Batch(stand.running, TopicPartition(topic, 2**30), records), len(records), POLLED_BYTES_MAX)
    assert len(frame({"id": 2**62, "ok": answer([batch])})) <= FRAME_BYTES_MAX


BYTES = st.none() | st.binary(max_size=3) | st.sampled_from([bytes(40), bytes(300), bytes(70_000)])
HEADERS = st.none() | st.lists(st.tuples(st.sampled_from(["", "h", "é" * 50, "\U0001f600" * 300]), BYTES), max_size=20)
NUMBERS = st.sampled_from([0, 200, 2**40, 2**63 - 1])


@st.composite
def batches(draw: st.DrawFn) -> Sequence[Record]:
    topic = draw(st.sampled_from(["t", "t" * 40, "t" * 249]))
    rows = draw(st.lists(st.tuples(NUMBERS, NUMBERS, BYTES, BYTES, HEADERS), min_size=1, max_size=20))
    return [Record(topic, 2**31 - 1, *row) for row in rows]


@settings(max_examples=100, deadline=None)
@given(records=batches(), spare=st.integers(0, 3_000))
def test_records_have_at_most_the_bytes_that_are_counted_for_them(records: Sequence[Record], spare: int) -> None:
    running = test_timers.Stand().running
    batch = Batch(running, TopicPartition(records[0].topic, records[0].partition), records)
    _, _, all_bytes = split(batch, len(records), FRAME_BYTES_MAX)
    fits, rest, counted = split(batch, len(records), all_bytes - spare)
    assert counted <= all_bytes - spare or len(fits.records) == 1
    assert [*fits.records, *(rest.records if rest else ())] == records
    for answer in (as_records, as_columns):
        empty: Any = answer([])
        assert len(frame(answer([fits]))) - len(frame(empty)) <= counted + 4, "4: the length of the array grows"


# --- tasks that leave, and polls that were sent before they returned --------------------------------


@pytest.mark.parametrize("is_behind_a_commit", [False, True])
def test_a_poll_that_was_sent_before_a_task_returned_lets_no_earlier_write_pass(
    stand: PollStand, is_behind_a_commit: bool
) -> None:
    """A session that sends its next poll before it has worked on the last cannot know that the task will restart."""
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10)
    if is_behind_a_commit:
        stand.ask("commit", offsets={})
    prefetched = stand.ask("poll", timeout_ms=60_000)
    stand.handler.ends(TASK)
    stand.handler.failed([TASK], "its store was repaired")
    stand.begin()
    if is_behind_a_commit:
        stand.handler.commit_begins()
        stand.handler.turn()
    stand.bring(10)
    assert stand.port.answers[stand.put(b"of before")] == "task_migrated"
    assert stand.answer_of(prefetched) == [], "at once, and without records that cannot be worked on yet"
    assert stand.poll() == [10]
    assert stand.port.answers[stand.put(b"of now")] == 1
    stand.ask("commit")
    assert stand.commit_begins() == ({b"of now"}, {INPUT: 11})


def test_what_left_with_its_task_does_not_count_as_uncommitted(stand: PollStand) -> None:
    stand.ask("poll", max_records=100, timeout_ms=60_000)
    stand.bring(10, 70)
    other = stand.begin_another()
    stand.handler.work(other, OTHER_INPUT, [Record("orders", 1, 10 + n, 5, b"k", b"v") for n in range(30)])
    assert len(stand.poll(max_records=100)) == 30
    assert stand.poll() == "uncommitted_limit"
    stand.handler.ends(TASK)
    stand.ask("poll", max_records=100, timeout_ms=60_000)
    assert stand.handler.appetite() == 70


def test_timers_that_left_with_their_task_do_not_count_as_uncommitted() -> None:
    stand = test_timers.Stand()
    stand.set({b"%d" % number: number for number in range(20)})
    stand.commit()
    assert len(stand.poll()) == 20
    assert stand.ask("poll", max_timers=20, timeout_ms=0) == "uncommitted_limit"
    stand.handler.ends(TASK)
    stand.begin()
    answer = stand.ask("poll", max_timers=20, timeout_ms=0)
    assert answer != "uncommitted_limit"
    assert len(answer["timers"]) == 20


def test_a_poll_brings_no_more_than_may_be_uncommitted_however_many_wait(stand: PollStand) -> None:
    """Records that waited for another partition of their task come all at once."""
    limit = stand.handler._limits.records_max
    stand.bring_values(0, *[b"v"] * (2 * limit))
    assert stand.poll(max_records=limit // 2) == [*range(limit // 2)]
    assert stand.poll(max_records=limit) == [*range(limit // 2, limit)]
    assert stand.poll(max_records=limit) == "uncommitted_limit"
    stand.ask("commit")
    assert stand.commit_begins()[1] == {INPUT: limit}
    stand.handler.commit_ends(CommitEnd.DONE)
    assert stand.poll(max_records=1) == [limit]
