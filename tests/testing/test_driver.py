"""``TopologyTestDriver``: records, outputs, stores, clocks, commits that fail, and errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kstreams_assign import (
    ConfigError,
    Event,
    Record,
    RecordRefused,
    Repartition,
    Store,
    Subtopology,
    Task,
    TopologyMismatch,
    TopologyTestDriver,
    ValueAndTime,
)
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import RunningEvent, TaskFailedEvent

AT_LEAST_ONCE, EXACTLY_ONCE = GUARANTEES
NOW_MS = 1_700_000_000_000


def count(task: Task, words: Sequence[Record]) -> None:
    counts = task.store("counts")
    for word in words:
        assert word.key is not None
        total = int(counts.get(word.key) or 0) + 1
        counts.put(word.key, b"%d" % total)
        task.emit("word-counts", word.key, b"%d" % total)


def split(task: Task, lines: Sequence[Record]) -> None:
    for line in lines:
        for word in (line.value or b"").split():
            task.emit("words", word, b"")


COUNT = Subtopology(count, sources=["words"], stores=["counts"], sinks=["word-counts"])
SPLIT = [
    Subtopology(split, sources=["lines"], sinks=["words"]),
    Subtopology(count, repartition_sources=["words"], stores=["counts"], sinks=["word-counts"]),
]


def driver_of(process: Callable[[Task, Sequence[Record]], None], **arguments: object) -> TopologyTestDriver:
    topology = [Subtopology(process, sources=["in"], stores=["kept"], sinks=["out"])]
    return TopologyTestDriver(topology, now_ms=NOW_MS, **arguments)  # type: ignore[arg-type]


def values(records: Sequence[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "kstreams_assign"):
        yield


@pytest.fixture(params=GUARANTEES)
def guarantee(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- records ----------------------------------------------------------------------------


def test_a_record_goes_through_to_outputs_stores_and_the_changelog(guarantee: str) -> None:
    with TopologyTestDriver([COUNT], now_ms=NOW_MS, processing_guarantee=guarantee) as driver:
        driver.pipe("words", b"to", b"")
        driver.pipe("words", b"to", b"", 7_000)
        counted = driver.read("word-counts")
        assert [(each.key, each.value, each.timestamp_ms) for each in counted] == [
            (b"to", b"1", NOW_MS),
            (b"to", b"2", 7_000),
        ]
        assert driver.read("word-counts") == []
        assert driver.store("counts").get(b"to") == b"2"
        assert values(driver.read("test-counts-changelog")) == [(b"to", b"1"), (b"to", b"2")]
        assert driver.written_topics() == ["test-counts-changelog", "word-counts"]


def test_nothing_runs_on_another_thread(guarantee: str) -> None:
    threads: set[threading.Thread] = set()
    before = threading.active_count()
    with driver_of(
        lambda _task, _records: threads.add(threading.current_thread()), processing_guarantee=guarantee
    ) as d:
        d.pipe("in", b"k", b"v")
        assert threading.active_count() == before
    assert threads == {threading.current_thread()}


def test_headers_and_the_partition_of_a_record_arrive() -> None:
    heard: list[Record] = []

    def listen(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            heard.append(record)
            task.emit("out", record.key, None)

    with driver_of(listen, partitions={"in": 3, "out": 3}) as driver:
        driver.pipe("in", None, b"v", headers=[("name", b"value")], partition=2)
        assert heard == [Record("in", 2, 0, NOW_MS, None, b"v", [("name", b"value")])]
        (written,) = driver.read("out")
        assert (written.value, written.headers) == (None, [("name", b"value")])
        driver.pipe("in", b"k", b"v")
        assert heard[-1].headers is None


def test_a_key_chooses_the_partition_that_java_chooses() -> None:
    """Kafka's own test of murmur2 has these keys (``UtilsTest.testMurmur2``): 21, foobar, and their hashes."""
    with TopologyTestDriver([COUNT], partitions={"words": 5, "word-counts": 7}) as driver:
        for key, hashed in ((b"21", -973932308), (b"foobar", -790332482)):
            driver.pipe("words", key, b"")
            (counted,) = driver.read("word-counts")
            assert counted.partition == (hashed & 0x7FFFFFFF) % 7
            assert driver.store("counts", (hashed & 0x7FFFFFFF) % 5).get(key) == b"1"


def test_records_without_a_key_take_the_partitions_in_turn() -> None:
    partitions: list[int] = []

    def listen(_task: Task, records: Sequence[Record]) -> None:
        partitions.extend(record.partition for record in records)

    with driver_of(listen, partitions={"in": 3}) as driver:
        for _ in range(4):
            driver.pipe("in", None, b"v")
    assert partitions == [0, 1, 2, 0]


def test_many_records_come_in_the_batches_of_a_worker() -> None:
    sizes: list[int] = []
    with driver_of(lambda _task, records: sizes.append(len(records))) as driver:
        driver.pipe_many("in", [(b"k", b"v")] * 100)
    assert sizes == [16, 32, 52]
    sizes.clear()
    with driver_of(lambda _task, records: sizes.append(len(records)), max_poll_records=1) as driver:
        driver.pipe_many("in", [(b"k", b"v")] * 3, [1, 2, 3])
    assert sizes == [1, 1, 1]


def test_stream_time_moves_with_the_records_and_is_committed(guarantee: str) -> None:
    times: list[int | None] = []
    with driver_of(lambda task, _records: times.append(task.partition_time("in")), processing_guarantee=guarantee) as d:
        for time_ms in (5_000, 3_000, 9_000):
            d.pipe("in", b"k", b"v", time_ms)
    assert times == [None, 5_000, 5_000]


# --- topologies -------------------------------------------------------------------------


def test_a_repartition_topic_is_read_by_the_next_subtopology(guarantee: str) -> None:
    with TopologyTestDriver(SPLIT, partitions={"lines": 3}, processing_guarantee=guarantee) as driver:
        driver.pipe("lines", None, b"to be or not to be")
        assert sorted(values(driver.read("word-counts"))) == [
            (b"be", b"1"),
            (b"be", b"2"),
            (b"not", b"1"),
            (b"or", b"1"),
            (b"to", b"1"),
            (b"to", b"2"),
        ]
        assert len(driver.read("words")) == 6
        assert "test-words-repartition" in driver.written_topics()
        driver.pipe("words", b"to", b"")
        assert values(driver.read("word-counts")) == [(b"to", b"3")]


def test_exactly_once_the_next_subtopology_waits_for_the_commit() -> None:
    for guarantee, counted in ((AT_LEAST_ONCE, True), (EXACTLY_ONCE, False)):
        heard: list[bytes | None] = []
        topology = [
            Subtopology(split, sources=["lines"], sinks=["words"]),
            Subtopology(lambda _task, words: heard.extend(word.key for word in words), sources=["words"]),  # noqa: B023
        ]
        with TopologyTestDriver(topology, auto_commit=False, processing_guarantee=guarantee) as driver:
            driver.pipe("lines", None, b"to be")
            assert bool(heard) is counted, guarantee
            driver.commit()
            assert heard == [b"to", b"be"], guarantee


def test_what_is_piped_to_a_topic_is_not_read_as_an_output() -> None:
    topology = [Subtopology(split, sources=["lines"], sinks=["words"]), COUNT]
    with TopologyTestDriver(topology) as driver:
        driver.pipe("words", b"piped", b"")
        driver.pipe("lines", None, b"emitted")
        assert values(driver.read("words")) == [(b"emitted", b"")]
        assert driver.store("counts").get(b"piped") == driver.store("counts").get(b"emitted") == b"1"


def test_a_topic_that_matches_a_pattern_is_read_when_it_appears(guarantee: str) -> None:
    heard: list[str] = []

    def listen(_task: Task, records: Sequence[Record]) -> None:
        heard.extend(f"{record.topic}-{record.partition}" for record in records)

    topology = [Subtopology(listen, sources_pattern="orders-.*")]
    partitions = {"orders-eu": 2}
    with TopologyTestDriver(topology, partitions=partitions, processing_guarantee=guarantee) as driver:
        driver.pipe("orders-eu", b"k", b"v", partition=1)
        driver.pipe("orders-us", b"k", b"v")
        driver.pipe_many("orders-uk", [(b"k", b"v")])
    assert heard == ["orders-eu-1", "orders-us-0", "orders-uk-0"]


def test_a_store_of_a_pattern_keeps_what_the_first_topic_that_matches_brings(guarantee: str) -> None:
    topology = [Subtopology(count, sources_pattern="words-.*", stores=["counts"], sinks=["word-counts"])]
    with TopologyTestDriver(topology, processing_guarantee=guarantee) as driver:
        assert driver.read("test-counts-changelog") == []
        driver.pipe("words-eu", b"to", b"")
        driver.pipe("words-us", b"to", b"")
        assert driver.store("counts").get(b"to") == b"2"
        assert values(driver.read("test-counts-changelog")) == [(b"to", b"1"), (b"to", b"2")]


def test_joined_topics_need_equal_numbers_of_partitions() -> None:
    topology = [Subtopology(count, sources=["a", "b"], copartitioned=[["a", "b"]])]
    with pytest.raises(TopologyMismatch, match="a has 2, b has 1"):
        TopologyTestDriver(topology, partitions={"a": 2})


def test_a_source_topic_can_be_a_stores_changelog(guarantee: str) -> None:
    def keep(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            assert record.key is not None
            task.store("table").put(record.key, record.value)

    topology = [Subtopology(keep, sources=["in"], stores=[Store("table", source="in")])]
    with TopologyTestDriver(topology, processing_guarantee=guarantee) as driver:
        driver.pipe("in", b"k", b"v")
        assert driver.store("table").get(b"k") == b"v"
        assert driver.written_topics() == []


# --- stores -----------------------------------------------------------------------------


def test_a_function_finds_what_the_test_put_into_a_store() -> None:
    with TopologyTestDriver([COUNT], partitions={"words": 2}) as driver:
        driver.store("counts", 0).put(b"to", b"41")
        driver.store("counts", 1).put(b"to", b"41")
        driver.pipe("words", b"to", b"")
        assert values(driver.read("word-counts")) == [(b"to", b"42")]
        driver.store("counts", 1).delete(b"to")
        driver.store("counts", 0).delete(b"to")
        driver.pipe("words", b"to", b"")
        assert values(driver.read("word-counts")) == [(b"to", b"1")]


def test_a_timestamped_store_has_its_times() -> None:
    def keep(task: Task, records: Sequence[Record]) -> None:
        store = task.timestamped_store("newest")
        for record in records:
            assert record.key is not None
            assert record.value is not None
            before = store.get_with_timestamp(record.key)
            task.emit("out", record.key, b"" if before is None else b"%d" % before.timestamp_ms)
            store.put(record.key, record.value)

    topology = [Subtopology(keep, sources=["in"], stores=[Store("newest", timestamped=True), "plain"], sinks=["out"])]
    with TopologyTestDriver(topology, now_ms=NOW_MS) as driver:
        driver.timestamped_store("newest").put(b"k", b"v", timestamp_ms=3)
        driver.pipe("in", b"k", b"w", 8)
        assert values(driver.read("out")) == [(b"k", b"3")]
        assert driver.timestamped_store("newest").get_with_timestamp(b"k") == ValueAndTime(b"w", 8)
        assert values(driver.read("test-newest-changelog")) == [(b"k", b"w")]
        driver.advance(5)
        driver.timestamped_store("newest").put(b"now", b"")
        assert list(driver.timestamped_store("newest").range_with_timestamps()) == [
            (b"k", ValueAndTime(b"w", 8)),
            (b"now", ValueAndTime(b"", NOW_MS + 5)),
        ]
        assert driver.store("newest").get(b"k") == b"w"
        with pytest.raises(Exception, match=r"declare it as Store\('plain', timestamped=True\)"):
            driver.timestamped_store("plain")


def test_a_store_shows_what_is_committed_and_nothing_else(guarantee: str) -> None:
    with TopologyTestDriver([COUNT], auto_commit=False, processing_guarantee=guarantee) as driver:
        store = driver.store("counts")
        driver.pipe("words", b"to", b"")
        assert store.get(b"to") is None
        driver.commit()
        assert (store.get(b"to"), list(store.range())) == (b"1", [(b"to", b"1")])


# --- time -------------------------------------------------------------------------------


def test_the_wall_clock_moves_when_the_test_says_so() -> None:
    events: list[Event] = []
    with TopologyTestDriver([COUNT], now_ms=NOW_MS, on_event=events.append) as driver:
        driver.advance(60_000)
        assert driver.now_ms == NOW_MS + 60_000
        driver.fail_next_commit()
        driver.pipe("words", b"to", b"")
        assert driver.now_ms == NOW_MS + 60_000
        assert driver.read("word-counts")[0].timestamp_ms == NOW_MS + 60_000
    times = [event.time_ms for event in events if isinstance(event, RunningEvent)]
    assert times == [NOW_MS, NOW_MS + 60_000]


# --- commits ----------------------------------------------------------------------------


def test_what_is_not_committed_is_not_readable_exactly_once() -> None:
    for guarantee, readable in ((AT_LEAST_ONCE, [(b"to", b"1")]), (EXACTLY_ONCE, [])):
        with TopologyTestDriver([COUNT], auto_commit=False, processing_guarantee=guarantee) as driver:
            driver.pipe("words", b"to", b"")
            assert values(driver.read("word-counts")) == readable
            driver.commit()
            assert values(driver.read("word-counts")) == [(b"to", b"1")][len(readable) :]


def test_after_a_commit_that_failed_the_function_sees_its_records_again() -> None:
    """At least once the output comes twice. Exactly once the aborted record and two markers take offsets."""
    for guarantee, times, offset in ((AT_LEAST_ONCE, 2, 2), (EXACTLY_ONCE, 1, 4)):
        events: list[Event] = []
        calls: list[tuple[int, bytes | None]] = []

        def seen(task: Task, words: Sequence[Record], calls: list[tuple[int, bytes | None]] = calls) -> None:
            calls.extend((word.offset, task.store("counts").get(b"to")) for word in words)
            count(task, words)

        topology = [Subtopology(seen, sources=["words"], stores=["counts"], sinks=["word-counts"])]
        with TopologyTestDriver(topology, processing_guarantee=guarantee, on_event=events.append) as driver:
            driver.pipe("words", b"to", b"")
            driver.read("word-counts")
            driver.fail_next_commit()
            driver.pipe("words", b"to", b"")
            assert calls == [(0, None), (1, b"1"), (1, b"1")], guarantee
            counted = driver.read("word-counts")
            assert values(counted) == [(b"to", b"2")] * times, guarantee
            assert counted[-1].offset == offset, guarantee
            assert driver.store("counts").get(b"to") == b"2"
            assert values(driver.read("test-counts-changelog")) == [(b"to", b"1"), (b"to", b"2")], guarantee
            driver.pipe("words", b"to", b"")
            assert values(driver.read("word-counts")) == [(b"to", b"3")], guarantee
        failed = [event.task for event in events if isinstance(event, TaskFailedEvent)]
        assert failed == ["0_0"], guarantee


def test_a_held_commit_that_fails_leaves_the_stores_as_they_were(guarantee: str) -> None:
    with TopologyTestDriver([COUNT], auto_commit=False, processing_guarantee=guarantee) as driver:
        driver.pipe("words", b"to", b"")
        driver.commit()
        driver.pipe("words", b"to", b"")
        driver.fail_next_commit()
        driver.commit()
        assert driver.store("counts").get(b"to") == b"1"
        driver.commit()
        assert driver.store("counts").get(b"to") == b"2"


def test_an_empty_commit_does_not_use_up_the_failure(guarantee: str) -> None:
    calls: list[int] = []
    with driver_of(lambda _task, records: calls.append(len(records)), processing_guarantee=guarantee) as driver:
        driver.fail_next_commit()
        driver.commit()
        driver.advance(1)
        driver.pipe("in", b"k", b"v")
    assert calls == [1, 1]


def test_only_tasks_of_the_failed_commit_start_again() -> None:
    heard: list[tuple[int, int]] = []

    def listen(task: Task, records: Sequence[Record]) -> None:
        heard.extend((task.id.partition, record.offset) for record in records)

    with driver_of(listen, partitions={"in": 2}) as driver:
        driver.pipe("in", b"k", b"v", partition=0)
        driver.fail_next_commit()
        driver.pipe("in", b"k", b"v", partition=1)
    assert heard == [(0, 0), (1, 0), (1, 0)]


def test_a_full_buffer_is_committed_without_being_asked() -> None:
    with TopologyTestDriver([COUNT], auto_commit=False, buffered_records_max=4) as driver:
        driver.pipe_many("words", [(b"to", b"")] * 6)
        assert driver.store("counts").get(b"to") == b"4"


def test_closing_commits_and_outputs_can_still_be_read(guarantee: str) -> None:
    with TopologyTestDriver([COUNT], auto_commit=False, processing_guarantee=guarantee) as driver:
        driver.pipe("words", b"to", b"")
    driver.close()
    assert values(driver.read("word-counts")) == [(b"to", b"1")]
    assert driver.store("counts").get(b"to") == b"1"


# --- errors -----------------------------------------------------------------------------


def test_an_error_of_the_function_names_the_record_and_commits_nothing(guarantee: str) -> None:
    def fail(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.store("kept").put(b"k", record.value)
            if record.value == b"bad":
                raise ValueError("bad value")

    driver = driver_of(fail, processing_guarantee=guarantee)
    driver.pipe("in", b"k", b"good")
    with pytest.raises(ValueError, match="bad value") as raised:
        driver.pipe("in", b"k", b"bad")
    assert raised.value.__notes__ == ["task 0_0, in-0 at offset 1 (batch of 1 record)"]
    driver.close()
    assert driver.store("kept").get(b"k") == b"good"


def test_a_bad_record_becomes_a_dead_letter_and_the_others_are_processed(guarantee: str) -> None:
    def refuse(task: Task, words: Sequence[Record]) -> None:
        for word in words:
            count(task, [word])
            if word.value == b"bad":
                raise ValueError("bad")

    topology = [
        Subtopology(refuse, sources=["words"], stores=["counts"], sinks=["word-counts"], on_error="dead_letter")
    ]
    with TopologyTestDriver(
        topology, processing_guarantee=guarantee, errors_dead_letter_queue_topic_name="dead"
    ) as driver:
        driver.pipe_many("words", [(b"to", b""), (b"be", b"bad"), (b"to", b"")])
        assert values(driver.read("word-counts")) == [(b"to", b"1"), (b"to", b"2")]
        [letter] = driver.read("dead")
        assert (letter.key, dict(letter.headers or [])["__streams.errors.message"]) == (b"be", b"bad")
        assert driver.store("counts").get(b"be") is None


def test_an_output_for_a_partition_that_does_not_exist_is_refused_with_its_task(guarantee: str) -> None:
    driver = driver_of(lambda task, _records: task.emit("out", b"k", b"v", partition=1), processing_guarantee=guarantee)
    with pytest.raises(RecordRefused, match="task 0_0: produce to out-1: the topic has 1 partition"):
        driver.pipe("in", b"k", b"v")
    assert driver.read("out") == []


def test_the_input_of_an_output_for_a_partition_that_does_not_exist_is_set_aside(guarantee: str) -> None:
    def emit(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.emit("out", record.key, b"v", partition=int(record.value or b""))

    topology = [Subtopology(emit, sources=["in"], sinks=["out"], on_error="dead_letter")]
    with TopologyTestDriver(
        topology, processing_guarantee=guarantee, errors_dead_letter_queue_topic_name="dead"
    ) as driver:
        driver.pipe_many("in", [(b"a", b"0"), (b"b", b"1"), (b"b", b"0"), (b"c", b"0")])
        assert [letter.key for letter in driver.read("dead")] == [b"b"]
        outputs = [record.key for record in driver.read("out")]
    assert outputs[-3:] == [b"a", b"b", b"c"]
    if guarantee == "exactly_once_v2":
        assert len(outputs) == 3


def test_the_input_of_an_output_out_of_range_is_set_aside(guarantee: str) -> None:
    wrong: dict[bytes, dict[str, Any]] = {
        b"partition": {"partition": 2**31},
        b"time": {"timestamp_ms": 2**63},
        b"header": {"headers": [("\ud800", b"")]},
        b"negative": {"timestamp_ms": -1},
    }

    def emit(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.store("kept").put(b"newest", record.value)
            task.emit("out", record.key, record.value, **wrong.get(record.value or b"", {}))

    topology = [Subtopology(emit, sources=["in"], stores=["kept"], sinks=["out"], on_error="skip")]
    with TopologyTestDriver(topology, processing_guarantee=guarantee) as driver:
        driver.pipe_many("in", [(b"k", value) for value in (b"first", *wrong, b"last")])
        assert [record.value for record in driver.read("out")] == [b"first", b"last"]
        assert driver.store("kept").get(b"newest") == b"last"


def test_a_record_of_the_time_0_is_written_with_the_time_1_as_by_a_worker(guarantee: str) -> None:
    def write(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.store("kept").put(b"k", record.value)
            task.emit("out", record.key, record.value)
            task.emit("out", record.key, record.value, timestamp_ms=2)

    with driver_of(write, processing_guarantee=guarantee) as driver:
        driver.pipe("in", b"k", b"v", 0)
        assert [record.timestamp_ms for record in driver.read("out")] == [1, 2]
        assert [record.timestamp_ms for record in driver.read("test-kept-changelog")] == [1]


WRONG: dict[str, tuple[Callable[[TopologyTestDriver], object], str]] = {
    "an unknown source": (
        lambda driver: driver.pipe("word-counts", b"k", b"v"),
        "topic = 'word-counts': no subtopology reads it; must be one of words",
    ),
    "an unknown output": (
        lambda driver: driver.read("words"),
        "topic = 'words': the topology does not write to it; must be one of test-counts-changelog, word-counts",
    ),
    "an unknown store": (
        lambda driver: driver.store("totals"),
        "store = 'totals': no such store; the topology declares counts",
    ),
    "a missing partition of a store": (
        lambda driver: driver.store("counts", 3),
        "partition = 3: store 'counts' has the partitions 0 to 0",
    ),
    "a missing partition of a source": (
        lambda driver: driver.pipe("words", b"k", b"v", partition=1),
        "partition = 1: topic 'words' has the partitions 0 to 0",
    ),
    "a negative time": (
        lambda driver: driver.pipe("words", b"k", b"v", -1),
        "timestamp_ms = -1: must be a whole number >= 0",
    ),
    "a time that no record can have": (
        lambda driver: driver.pipe("words", b"k", b"v", 2**63),
        "timestamp_ms = 9223372036854775808: must be a whole number >= 0 and below 2^63",
    ),
    "a clock that goes back": (lambda driver: driver.advance(-1), "ms = -1: must be a whole number >= 0"),
    "too few times": (
        lambda driver: driver.pipe_many("words", [(b"k", b"v")] * 2, [1]),
        "timestamps_ms: has 1 times for 2 records",
    ),
    "a key that is no bytes": (
        lambda driver: driver.pipe("words", "to", b""),  # type: ignore[arg-type]
        "pipe to 'words': key is str 'to': must be None or bytes",
    ),
    "a wrong header": (
        lambda driver: driver.pipe("words", b"to", b"", headers=[("name", 1)]),  # type: ignore[list-item]
        "pipe to 'words': a header is ('name', 1): must be a pair",
    ),
    "a header that no client can send": (
        lambda driver: driver.pipe("words", b"to", b"", headers=[("\ud800", b"")]),
        r"pipe to 'words': a header's name is '\ud800': must be text that UTF-8 can encode",
    ),
    "a topic of no use": (
        lambda _driver: TopologyTestDriver([COUNT], partitions={"word": 2}),
        "partitions = {'word': 2}: the topology neither reads nor writes it; must be one of word-counts, words",
    ),
    "no partitions": (
        lambda _driver: TopologyTestDriver([COUNT], partitions={"words": 0}),
        "partitions = {'words': 0}: must be a whole number >= 1",
    ),
    "partitions of a repartition topic": (
        lambda _driver: TopologyTestDriver(SPLIT, partitions={"words": 2}),
        "it is a repartition topic; write Repartition(..., partitions=2)",
    ),
    "a misspelt argument": (
        lambda _driver: TopologyTestDriver([COUNT], autocommit=True),
        "autocommit: no such setting; did you mean auto_commit?",
    ),
    "a wrong setting": (
        lambda _driver: TopologyTestDriver([COUNT], processing_guarantee="exactly_once"),
        "processing_guarantee = 'exactly_once': must be one of",
    ),
    "an interval": (
        lambda _driver: TopologyTestDriver([COUNT], commit_interval_ms=100),
        "commit_interval_ms = 100: must be left out",
    ),
    "one subtopology": (
        lambda _driver: TopologyTestDriver(COUNT),  # type: ignore[arg-type]
        "must be a list; write TopologyTestDriver([Subtopology(...)])",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_refused_by_what_is_allowed(wrong: str) -> None:
    call, text = WRONG[wrong]
    with TopologyTestDriver([COUNT]) as driver:
        with pytest.raises(Exception) as raised:  # noqa: PT011  # the text says which
            call(driver)
        assert text in str(raised.value)
        assert type(raised.value).__name__ in {"ConfigError", "TypeError"}
        driver.pipe("words", b"to", b"")
        assert values(driver.read("word-counts")) == [(b"to", b"1")]


def test_after_the_end_nothing_can_be_piped() -> None:
    driver = TopologyTestDriver([COUNT])
    driver.close()
    calls: list[Callable[[], None]] = [
        lambda: driver.pipe("words", b"k", b"v"),
        lambda: driver.pipe_many("words", []),
        lambda: driver.advance(1),
        driver.commit,
    ]
    for call in calls:
        with pytest.raises(Exception, match="the driver is closed; make another TopologyTestDriver"):
            call()


def test_a_repartition_topic_has_the_partitions_that_it_declares() -> None:
    topology = [SPLIT[0], Subtopology(count, repartition_sources=[Repartition("words", 4)], stores=["counts"])]
    driver = TopologyTestDriver(topology)
    with pytest.raises(Exception, match="store 'counts' has the partitions 0 to 3"):
        driver.store("counts", 4)


def carts(task: Task, records: Sequence[Record]) -> None:
    items, known = task.store("items"), task.store("known")
    for record in records:
        assert record.key is not None
        assert record.value is not None
        items.put(record.key + b"/" + record.value, b"")
        known.put(record.key, b"")
        names = [key for key, _ in items.prefix_scan(record.key + b"/")]
        task.emit("carts", record.key, b" ".join(names))
        task.emit("carts", None, b"%d %d" % (items.approximate_count(), known.approximate_count()))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_stores_in_memory_prefix_scans_and_counts_work_as_in_a_worker(guarantee: str) -> None:
    stores = [Store("items", in_memory=True, changelog_config={"min.insync.replicas": "1"}), "known"]
    topology = [Subtopology(carts, sources=["in"], stores=stores, sinks=["carts"])]
    with TopologyTestDriver(topology, processing_guarantee=guarantee) as driver:
        for key, value in ((b"ann", b"tea"), (b"anna", b"tea"), (b"ann", b"jam")):
            driver.pipe("in", key, value)
        assert values(driver.read("carts")) == [
            (b"ann", b"ann/tea"),
            (None, b"1 1"),
            (b"anna", b"anna/tea"),
            (None, b"2 2"),
            (b"ann", b"ann/jam ann/tea"),
            (None, b"3 3"),  # the buffered write of a known key counts until the commit
        ]
        items = driver.store("items")
        assert [key for key, _ in items.prefix_scan(b"ann/", reverse=True)] == [b"ann/tea", b"ann/jam"]
        assert (items.approximate_count(), driver.store("known").approximate_count()) == (3, 2)
        assert len(driver.read("test-items-changelog")) == 3
        driver.fail_next_commit()
        driver.pipe("in", b"bob", b"tea")
        assert items.approximate_count() == 4
    with pytest.raises(ConfigError, match=r"did you mean cleanup\.policy"):
        TopologyTestDriver(
            [Subtopology(carts, sources=["in"], stores=[Store("items", changelog_config={"cleanup.polcy": "x"})])]
        )
