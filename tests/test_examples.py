"""The examples do what they say, on a real broker, as their own processes."""

from __future__ import annotations

import asyncio
import runpy
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, KafkaException

from kstreams_assign import TaskId, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.adapters.kafka_python import describes_groups

EXAMPLES = Path(__file__).parent.parent / "examples"
WITHIN_S = 90
pytestmark = pytest.mark.timeout(400)  # several waits, each with a limit of its own
WORDS = [b"to", b"be", b"or", b"not", b"to", b"be"] * 50


@contextmanager
def running(example: str, *arguments: str, folder: Path, end: signal.Signals = signal.SIGINT):
    """An example at work in ``folder``, ended by Ctrl-C or ``end``; fails if it does not end then."""
    command = [sys.executable, EXAMPLES / example, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.send_signal(end)
            process.wait(WITHIN_S)
        finally:
            process.kill()


def until_it_has_a_task(process) -> None:
    """The loops of one's own say what they have."""
    assert any("active 0_" in line for line in process.stdout), "it ended without a task"


def until_members(broker: str, group: str, count: int) -> None:
    """Wait until so many are in the group, and all of them have their tasks."""
    deadline = time.monotonic() + WITHIN_S
    with describes_groups(broker) as describer:
        while (view := describer.describe(group)) is None or (view.state, len(view.members)) != ("Stable", count):
            assert time.monotonic() < deadline, view
            Event().wait(0.1)


def last_values(broker: str, topic: str, wanted: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The newest value of each key once they are as wanted, or as they are when time is up."""
    consumer = InputConsumer(broker, group_id="examples")
    consumer.add({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
    newest: dict[bytes, bytes] = {}
    deadline = time.monotonic() + WITHIN_S
    while newest != wanted and time.monotonic() < deadline:
        for records in consumer.poll(1_000, 0.1).values():
            newest.update((record.key, record.value) for record in records)
    consumer.close()
    return newest


def count_of_records(broker: str, partition: TopicPartition, wanted: int) -> int:
    """How many records it has once there are as many as wanted, or as there are when time is up."""
    admin, deadline = ClusterAdmin(broker), time.monotonic() + WITHIN_S
    while (count := admin.end_offsets([partition], WITHIN_S)[partition]) < wanted and time.monotonic() < deadline:
        Event().wait(0.1)
    return count


def test_word_count_counts_words_and_ends_on_ctrl_c_and_sigterm(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"words": 2, "word-counts": 2}, WITHIN_S)
    producer = RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1_000)
    for word in [None, *WORDS[:1], None, *WORDS[1:]]:  # a record without a key is no word
        producer.produce("words", None, word, b"")
    producer.flush(WITHIN_S)
    producer.close()
    wanted = {word: b"%d" % count for word, count in Counter(WORDS).items()}
    with running("word_count.py", broker, folder=tmp_path) as process:
        assert last_values(broker, "word-counts", wanted) == wanted
        assert process.poll() is None
    assert process.returncode == 0
    assert (tmp_path / "state" / "word-count").is_dir()
    produce(broker, "words", [b"be"])
    wanted[b"be"] = b"%d" % (int(wanted[b"be"]) + 1)
    with running("word_count.py", broker, folder=tmp_path, end=signal.SIGTERM) as process:
        assert last_values(broker, "word-counts", wanted) == wanted
    assert process.returncode == 0


def test_a_second_member_of_a_streams_group_restores_its_tasks_and_then_joins(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"stock-moves": 2, "stock-levels": 2}, WITHIN_S)
    articles = [b"nail", b"screw", b"bolt", b"nut", b"hook", b"ring"]
    produce(broker, "stock-moves", articles, b"7")
    levels = dict.fromkeys(articles, b"7")
    with running("streams_group.py", broker, "one", folder=tmp_path, end=signal.SIGTERM) as first:
        assert last_values(broker, "stock-levels", levels) == levels
        assert "joins: the group has no members" in first.stdout.readline()
        with running("streams_group.py", broker, "two", folder=tmp_path, end=signal.SIGTERM) as second:
            lines = [second.stdout.readline() for _ in range(3)]
            task = lines[-1].removeprefix("runs ").strip()
            assert lines == [f"restores {task}\n", "joins: 1 task is warm\n", f"runs {task}\n"]
            produce(broker, "stock-moves", articles, b"-2")
            levels = dict.fromkeys(articles, b"5")
            assert last_values(broker, "stock-levels", levels) == levels
    assert (first.returncode, second.returncode) == (0, 0)


def produce(broker: str, topic: str, keys, value=b"") -> None:
    producer = RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1_000)
    for key in keys:
        producer.produce(topic, None, key, value)
    producer.flush(WITHIN_S)
    producer.close()


@pytest.mark.parametrize(("protocol", "application"), [("classic", "own-loop"), ("streams", "own-streams-loop")])
def test_a_loop_of_ones_own_hands_its_counts_over_to_a_second_process_and_back(broker, tmp_path, protocol, application):
    words, counts = f"{application}-words", f"{application}-counts"
    ClusterAdmin(broker).create_topics({words: 2, counts: 2}, WITHIN_S)
    sent: Counter[bytes] = Counter()

    def counted_after(more) -> None:
        produce(broker, words, more)
        sent.update(more)
        wanted = {word: b"%d" % count for word, count in sent.items()}
        assert last_values(broker, counts, wanted) == wanted

    with running("own_loop.py", broker, "one", protocol, folder=tmp_path):
        counted_after(WORDS)
        with running("own_loop.py", broker, "two", protocol, folder=tmp_path) as second:
            until_it_has_a_task(second)
            counted_after(WORDS)
        counted_after(WORDS)


class CommitsCounted:
    """The membership of a loop's own, as far as the test needs it."""

    def __init__(self) -> None:
        self.commits = []

    def changelogs(self, _task):
        return {"counts": TopicPartition("own-loop-counts-changelog", 0)}

    def commit(self, offsets) -> None:
        self.commits.append(dict(offsets))


def names_of(example: str, monkeypatch) -> dict[str, Any]:
    """What an example defines; no broker is where it connects to."""
    monkeypatch.setattr(sys, "argv", [example, "127.0.0.1:1", "name"])
    return runpy.run_path(str(EXAMPLES / example))


class FlushedProducer:
    """A producer whose deliveries are known when it is flushed: those to the topic ``lost`` have failed."""

    def __init__(self, lost: str | None, during_flush=lambda: None) -> None:
        self._lost = lost
        self._during_flush = during_flush
        self._reports = []

    def produce(self, topic, _value, _key, _partition=-1, on_delivery=lambda _error, _sent: None) -> None:
        lost = topic == self._lost
        error = KafkaError(KafkaError._MSG_TIMED_OUT) if lost else None
        self._reports.append(partial(on_delivery, error, SimpleNamespace(offset=lambda: None if lost else 7)))

    def flush(self) -> None:
        self._during_flush()
        for report in self._reports:
            report()


@pytest.mark.parametrize("lost", ["own-loop-counts-changelog", "own-loop-counts", None])
def test_a_loop_of_ones_own_commits_no_input_whose_output_was_lost(monkeypatch, lost):
    loop = names_of("own_loop.py", monkeypatch)["Loop"](CommitsCounted())
    loop.producer = FlushedProducer(lost)
    task, source = TaskId(0, 0), TopicPartition("own-loop-words", 0)
    loop.counts[task], loop.position[task], loop.processed[source] = {}, 0, 1
    loop.count(task, b"word")
    with pytest.raises(SystemExit, match=r"an output was not delivered: .*_MSG_TIMED_OUT") if lost else nullcontext():
        loop.commit()
    assert loop.member.commits == ([] if lost else [{source: 1}])
    assert loop.position[task] == (0 if lost == "own-loop-counts-changelog" else 8)


@pytest.mark.parametrize("lost", ["shout-out", None])
def test_an_asyncio_loop_commits_what_was_delivered_and_nothing_else(monkeypatch, lost):
    source = TopicPartition("shout-in", 0)

    async def commit() -> None:
        shouting = names_of("own_asyncio_loop.py", monkeypatch)["Shouting"](CommitsCounted())
        shouting.producer = FlushedProducer(lost, lambda: shouting.processed.update({source: 5}))
        record = SimpleNamespace(key=lambda: b"key", value=lambda: b"quiet", offset=lambda: 0, error=lambda: None)
        shouting.work(source, record)
        with pytest.raises(KafkaException, match="_MSG_TIMED_OUT") if lost else nullcontext():
            await shouting.commit()
        assert shouting.member.commits == ([] if lost else [{source: 1}])
        assert shouting.processed == {source: 5}, "what was processed during the flush waits for the next commit"

    asyncio.run(commit())


def test_an_asyncio_loop_shouts_on_while_a_second_process_comes_and_goes(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"shout-in": 2, "shout-out": 2}, WITHIN_S)

    wanted: dict[bytes, bytes] = {}

    def shouted(keys) -> None:
        produce(broker, "shout-in", keys, b"quiet")
        wanted.update(dict.fromkeys(keys, b"QUIET"))
        assert last_values(broker, "shout-out", wanted) == wanted

    with running("own_asyncio_loop.py", broker, "one", folder=tmp_path):
        shouted([b"a%d" % n for n in range(50)])
        with running("own_asyncio_loop.py", broker, "two", folder=tmp_path) as second:
            until_it_has_a_task(second)
            shouted([b"b%d" % n for n in range(50)])
        shouted([b"c%d" % n for n in range(50)])


def test_words_of_lines_are_counted_through_a_repartition_topic_by_two_processes(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"lines": 2, "line-word-counts": 2}, WITHIN_S)
    sent: Counter[bytes] = Counter()

    def counted_after(lines: list[bytes]) -> None:
        produce(broker, "lines", [None] * 5, b" ".join(lines))
        sent.update([word for line in lines for word in line.split()] * 5)
        wanted = {word: struct.pack(">q", count) for word, count in sent.items()}
        assert last_values(broker, "line-word-counts", wanted) == wanted

    with running("repartitioned_word_count.py", broker, "one", folder=tmp_path):
        counted_after([b"to be or not to be", b"that is the question"])
        with running("repartitioned_word_count.py", broker, "two", folder=tmp_path):
            until_members(broker, "line-words", 2)
            counted_after([b"whether tis nobler in the mind to suffer"])
        counted_after([b"to die to sleep"])


def test_the_clicks_of_a_session_are_counted_until_it_expires(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"clicks": 2, "session-clicks": 2}, WITHIN_S)
    clicks = [  # minute, session
        (100, b"stays"),
        (100, b"expires"),
        (101, b"late"),
        (90, b"late"),
        (120, b"stays"),
        (130, b"expires"),
        (130, b"late"),
    ]
    producer = RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1_000)
    for at, session in clicks:
        producer.produce("clicks", 0, session, b"click", timestamp_ms=at * 60_000)
    producer.flush(WITHIN_S)
    producer.close()
    wanted = {b"stays": b"2", b"expires": b"1", b"late": b"3"}
    with running("expiring_sessions.py", broker, folder=tmp_path) as process:
        assert last_values(broker, "session-clicks", wanted) == wanted
    assert process.returncode == 0


def test_carts_are_listed_by_a_prefix_scan_and_restored_into_memory(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"added-items": 2, "carts": 2}, WITHIN_S)
    produce(broker, "added-items", [b"ann", b"ann", b"anna", b"bob"], b"tea")
    produce(broker, "added-items", [b"ann", b"bob"], b"bread")
    wanted = {b"ann": b"1 bread, 2 tea", b"anna": b"1 tea", b"bob": b"1 bread, 1 tea"}
    with running("carts.py", broker, folder=tmp_path) as process:
        assert last_values(broker, "carts", wanted) == wanted
    assert process.returncode == 0
    assert not list(tmp_path.rglob("0_*")), "nothing of a store is on disk"
    produce(broker, "added-items", [b"ann"], b"jam")
    wanted[b"ann"] = b"1 bread, 1 jam, 2 tea"
    with running("carts.py", broker, folder=tmp_path):
        assert last_values(broker, "carts", wanted) == wanted
    changelog = "list-carts-items-changelog"
    assert ClusterAdmin(broker).own_settings([changelog], WITHIN_S)[changelog]["segment.ms"] == "3600000"


def test_views_are_counted_a_batch_at_a_time_and_the_totals_have_their_times(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"page-views": 2, "page-totals": 2}, WITHIN_S)
    producer = RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1_000)
    for number in range(5_000):
        producer.produce("page-views", number % 2, b"page-%d" % (number % 20), b"", timestamp_ms=1_000 + number)
    producer.flush(WITHIN_S)
    producer.close()
    wanted = {b"page-%d" % page: b"250" for page in range(20)}
    with running("whole_batches.py", broker, folder=tmp_path):
        assert last_values(broker, "page-totals", wanted) == wanted
    consumer, seen = InputConsumer(broker, group_id="examples"), {}
    consumer.add({TopicPartition("page-totals", 0): 0, TopicPartition("page-totals", 1): 0})
    deadline = time.monotonic() + WITHIN_S
    while len(seen) < 5_000 and time.monotonic() < deadline:
        for records in consumer.poll(5_000, 0.1).values():
            seen.update(((record.key, int(record.value)), record.timestamp_ms) for record in records)
    consumer.close()
    numbers = range(5_000)
    assert seen == {(b"page-%d" % (number % 20), number // 20 + 1): 1_000 + number for number in numbers}


def test_sessions_end_by_the_time_of_the_records(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"clicks": 2, "ended-sessions": 2}, WITHIN_S)
    minute = 60_000
    clicks = [  # minute, session
        (100, b"stays"),
        (100, b"ends"),
        (101, b"ends at its newest"),
        (90, b"ends at its newest"),  # late
        (120, b"stays"),
        (131, b"at the limit"),
        (132, b"last"),
    ]
    producer = RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1_000)
    for at, session in clicks:
        producer.produce("clicks", 0, session, b"click", timestamp_ms=at * minute)
    producer.flush(WITHIN_S)
    producer.close()
    wanted = {b"ends": b"%d" % (100 * minute), b"ends at its newest": b"%d" % (101 * minute)}
    with running("ended_sessions.py", broker, folder=tmp_path) as process:
        assert last_values(broker, "ended-sessions", wanted) == wanted
    assert process.returncode == 0
    partitions = [TopicPartition("ended-sessions", number) for number in range(2)]
    ends = ClusterAdmin(broker).end_offsets(partitions, WITHIN_S)
    assert sum(ends.values()) == len(wanted), "nothing else ended"


def test_idle_carts_are_reminded_of_and_open_ones_are_counted(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"cart-changes": 2, "reminders": 2, "open-carts": 2}, WITHIN_S)
    carts = [b"cart-%d" % number for number in range(20)]
    produce(broker, "cart-changes", [*carts, b"emptied"], b"2 apples")
    produce(broker, "cart-changes", [b"emptied"], None)
    with running("timers.py", broker, "1500", folder=tmp_path) as process:
        wanted = dict.fromkeys(carts, b"2 apples")
        assert last_values(broker, "reminders", wanted) == wanted
        assert last_values(broker, "open-carts", {b"0": b"0", b"1": b"0"}) == {b"0": b"0", b"1": b"0"}
    assert process.returncode == 0


def test_shipments_get_the_names_of_their_countries_from_a_table_that_every_process_holds(broker, tmp_path):
    topics = {"shipments": 2, "named-shipments": 2, "country-codes": 3}
    ClusterAdmin(broker).create_topics(topics, WITHIN_S, configs={"country-codes": {"cleanup.policy": "compact"}})
    for code, name in ((b"ch", b"Switzerland"), (b"it", b"Italy"), (b"fr", b"France")):
        produce(broker, "country-codes", [code], name)
    wanted = {b"a": b"Switzerland", b"b": b"Italy", b"c": b"France", b"d": b"unknown"}
    for shipment, code in ((b"a", b"ch"), (b"b", b"it"), (b"c", b"fr"), (b"d", b"xx")):
        produce(broker, "shipments", [shipment], code)
    with running("global_table.py", broker, folder=tmp_path) as process:
        assert last_values(broker, "named-shipments", wanted) == wanted
    assert process.returncode == 0


def test_what_is_no_payment_becomes_a_dead_letter_and_is_sent_again_after_a_fix(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"deposits": 2, "balances": 2, "payments-dead-letters": 1}, WITHIN_S)
    produce(broker, "deposits", [b"ann"], b'{"amount": 5}')
    produce(broker, "deposits", [b"bob"], b"five")
    produce(broker, "deposits", [b"ann", b"bob"], b'{"amount": 2}')
    with running("bad_records.py", broker, folder=tmp_path):
        wanted = {b"ann": b"7", b"bob": b"2"}
        assert last_values(broker, "balances", wanted) == wanted
    command = [sys.executable, "-m", "kstreams_assign", "dead-letters", "payments", "-b", broker]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "json.decoder.JSONDecodeError" in listed.stdout
    assert "    bob = five" in listed.stdout
    assert subprocess.run([*command, "--resend"], check=True).returncode == 0


def test_a_signal_pauses_and_resumes_and_no_invoice_is_lost(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"purchases": 1, "invoices": 2}, WITHIN_S)
    invoices = [TopicPartition("invoices", number) for number in range(2)]

    def ends():
        return sum(ClusterAdmin(broker).end_offsets(invoices, WITHIN_S).values())

    with running("pausing.py", broker, folder=tmp_path) as process:
        produce(broker, "purchases", [b"ann", b"bob"], b"")
        assert last_values(broker, "invoices", {b"ann": b"0-1", b"bob": b"0-2"}) == {b"ann": b"0-1", b"bob": b"0-2"}
        process.send_signal(signal.SIGUSR2)
        assert process.stdout.readline() == "paused: 0_0\n"
        produce(broker, "purchases", [b"ann"], b"")
        before = ends()
        process.send_signal(signal.SIGUSR2)
        assert process.stdout.readline() == "resumed: 0_0\n"
        assert last_values(broker, "invoices", {b"ann": b"0-3", b"bob": b"0-2"}) == {b"ann": b"0-3", b"bob": b"0-2"}
    assert (before, ends()) == (2, 3)


def test_a_worker_that_restarts_on_sigterm_has_its_state_again(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"visits": 1, "visit-totals": 2}, WITHIN_S)
    arguments = ("rolling_restart.py", broker, "a")
    for total in (b"1", b"2"):
        with running(*arguments, folder=tmp_path, end=signal.SIGTERM) as process:
            produce(broker, "visits", [b"ann"], b"")
            assert last_values(broker, "visit-totals", {b"ann": total}) == {b"ann": total}
            assert process.stdout.readline() == "runs 0_0: 0 records restored\n"
        assert process.stdout.closed or process.returncode == 0


def test_typed_totals_adds_orders_and_sets_aside_what_is_no_order(broker, tmp_path):
    topics = {"typed-orders": 2, "order-totals": 2, "typed-totals-dead-letters": 1}
    ClusterAdmin(broker).create_topics(topics, WITHIN_S)
    produce(broker, "typed-orders", [b"ann"], b'{"amount": 5, "note": "new"}')
    produce(broker, "typed-orders", [b"bob", b"ann"], b'{"amount": "five"}')
    produce(broker, "typed-orders", [b"\xff"], b'{"amount": 1}')
    produce(broker, "typed-orders", [b"ann", b"bob", None], b'{"amount": 2}')
    with running("typed_totals.py", broker, folder=tmp_path) as process:
        wanted = {b"ann": struct.pack(">q", 7), b"bob": struct.pack(">q", 2)}
        assert last_values(broker, "order-totals", wanted) == wanted
        assert count_of_records(broker, TopicPartition("typed-totals-dead-letters", 0), 3) == 3
    assert process.returncode == 0
    assert count_of_records(broker, TopicPartition("typed-totals-dead-letters", 0), 3) == 3, "it ends without another"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_tutorials_application_ends_on_a_signal_without_a_traceback(broker, tmp_path, end):
    ClusterAdmin(broker).create_topics({"orders": 4, "customer-totals": 4, "bad-orders": 1}, WITHIN_S)
    command = [sys.executable, EXAMPLES / "tutorial" / "orders.py", broker, str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert any("runs its" in line for line in process.stderr), "it ended without its tasks"
            process.send_signal(end)
            _, log = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in log
    assert "This worker is closed." in log


def test_the_word_count_is_short_enough_to_be_copied():
    lines = (EXAMPLES / "word_count.py").read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if line and not line.startswith(('"""', "import ", "from "))]
    assert len(code) <= 10


def test_every_process_answers_for_every_key_also_while_the_other_one_has_it(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"asked-words": 2}, WITHIN_S)
    produce(broker, "asked-words", WORDS)
    counts = {word: b"%d" % count for word, count in Counter(WORDS).items()}

    def answers(process, url) -> None:
        deadline = time.monotonic() + WITHIN_S
        for word, count in counts.items():
            while (got := asked(url, word)) != count:
                assert process.poll() is None
                assert time.monotonic() < deadline, (word, got)
                Event().wait(0.1)

    with running("ask_for_a_key.py", broker, "0", folder=tmp_path) as first:
        urls = [first.stdout.readline().strip()]
        answers(first, urls[0])
        with running("ask_for_a_key.py", broker, "00", folder=tmp_path) as second:
            urls.append(second.stdout.readline().strip())
            until_members(broker, "asked-word-count", 2)
            for url in urls:
                answers(second, url)


def asked(url: str, word: bytes) -> bytes | None:
    """The answer; None while the worker says to ask again."""
    try:
        with urlopen(url + quote(word), timeout=WITHIN_S) as answer:
            return answer.read()
    except HTTPError as refused:
        with refused:
            return None if refused.code == 503 and int(refused.headers["Retry-After"]) >= 1 else refused.read()
