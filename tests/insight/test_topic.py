"""``topic create|list|produce|consume`` on a real broker."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from kstreams_assign.adapters.confluent import ClusterAdmin
from tests.insight.run import Cli

COMMAND = (sys.executable, "-m", "kstreams_assign", "topic")


@pytest.fixture
def topic(broker: str, request: pytest.FixtureRequest) -> str:
    """A topic with two partitions."""
    name = re.sub(r"[^a-z0-9]", "-", request.node.name)[:70]
    ClusterAdmin(broker).create_topics({name: 2}, 60)
    return name


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        yield process
        process.kill()


def pairs(out: str) -> list[tuple[str | None, str]]:
    return sorted(((record["key"], record["value"]) for record in map(json.loads, out.splitlines())), key=str)


def test_a_first_trial_needs_no_other_tool(broker: str, run: Cli) -> None:
    made = run("topic", "create", "trial-words:2", "trial-counts", "-b", broker)
    assert made.out == "trial-words: created, with 2 partitions\ntrial-counts: created, with 1 partition\n"
    written = run("topic", "produce", "trial-words", "-b", broker, "to=1", "be=2", "a=b=c", "not")
    assert (written.status, written.out) == (0, "4 records written to trial-words, 1 of them without a key\n")
    listed = run("topic", "list", "-b", broker)
    assert re.search(r"│ trial-words +│ +2 │ +4 │", listed.out)
    assert re.search(r"│ trial-counts +│ +1 │ +0 │", listed.out)
    shown = run("topic", "consume", "trial-words", "-b", broker)
    heading, *rows = shown.out.splitlines()
    assert heading.split() == ["partition", "offset", "key", "value"]
    assert sorted(row.split()[2:] for row in rows) == [["(none)", "not"], ["a", "b=c"], ["be", "2"], ["to", "1"]]
    assert (shown.status, shown.err) == (0, "4 records shown\n")


def test_a_topic_that_exists_is_left_as_it_is(broker: str, run: Cli, topic: str) -> None:
    same = run("topic", "create", f"{topic}:2", "-b", broker, "--json")
    assert json.loads(same.out) == [{"name": topic, "partitions": 2, "created": False}]
    other = run("topic", "create", f"{topic}:3", f"{topic}-new:1", "-b", broker)
    assert other.status == 2
    assert f"{topic}: it exists with 2 partitions, not 3; nothing was created" in other.err
    listed = json.loads(run("topic", "list", "-b", broker, "--json").out)
    assert [(row["name"], row["partitions"]) for row in listed if row["name"].startswith(topic)] == [(topic, 2)]


def test_a_topic_is_created_with_settings_and_not_with_wrong_ones(broker: str, run: Cli, topic: str) -> None:
    name, admin = f"{topic}-table", ClusterAdmin(broker)
    wrong = run("topic", "create", name, "-b", broker, "--config", "cleanup.policy=compacted")
    assert (wrong.status, wrong.out) == (2, "")
    assert f"topic create {name}: " in wrong.err
    assert "cleanup.policy" in wrong.err
    assert name not in admin.topics(60)
    words = ["--config", "cleanup.policy=compact", "--config", "segment.ms=3600000"]
    assert run("topic", "create", name, "-b", broker, *words).status == 0
    assert admin.topic_setting(name, "cleanup.policy", 60) == "compact"
    assert admin.topic_setting(name, "segment.ms", 60) == "3600000"


def test_kafkas_own_topics_are_listed_when_asked_for(broker: str, run: Cli, topic: str) -> None:
    run("topic", "produce", topic, "-b", broker, "x")
    words = ("topic", "list", "-b", broker, "--json")
    plain = {row["name"]: row for row in json.loads(run(*words).out)}
    every = {row["name"]: row for row in json.loads(run(*words, "--internal").out)}
    assert every.keys() > plain.keys()
    assert all(name.startswith("__") for name in every.keys() - plain.keys())
    assert not [name for name in plain if name.startswith("__")]
    assert plain[topic]["records"] == 1
    assert plain[topic]["start_offsets"] == [0, 0]
    assert sorted(plain[topic]["end_offsets"]) == [0, 1]


def test_lines_of_standard_input_are_records(
    broker: str, run: Cli, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"to:1\r\n\n=x\nlast")))
    written = run("topic", "produce", topic, "-b", broker, "--separator", ":", "--json")
    assert written.facts == {"topic": topic, "records": 3, "without_key": 2}
    assert pairs(run("topic", "consume", topic, "-b", broker, "--json").out) == [
        ("to", "1"),
        (None, "=x"),
        (None, "last"),
    ]


def test_a_terminal_shows_what_to_type_and_ctrl_c_ends_the_lines(broker: str, topic: str, run: Cli) -> None:
    ours, theirs = pty.openpty()
    pipe = subprocess.PIPE
    words = [*COMMAND, "produce", topic, "-b", broker]
    with subprocess.Popen(words, stdin=theirs, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr.readline() == "one record a line: KEY=VALUE, or a value alone; Ctrl-D ends\n"
        os.write(ours, b"typed=1\n")
        shown = run("topic", "consume", topic, "-b", broker, "--follow", "--max", "1", "--json")
        assert pairs(shown.out) == [("typed", "1")]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, process.stderr.read()
        assert process.stdout.read() == f"1 record written to {topic}\n"
    os.close(ours)
    os.close(theirs)


def test_following_goes_on_with_new_records_until_ctrl_c(broker: str, run: Cli, topic: str) -> None:
    run("topic", "produce", topic, "-b", broker, "old=1")
    with started("consume", topic, "-b", broker, "--follow", "--json") as following:
        assert json.loads(following.stdout.readline())["key"] == "old"
        run("topic", "produce", topic, "-b", broker, "new=2")
        assert json.loads(following.stdout.readline())["key"] == "new"
        following.send_signal(signal.SIGINT)
        assert (following.wait(60), following.stderr.read()) == (0, "2 records shown\n")


def test_following_from_the_end_leaves_out_what_is_there(broker: str, run: Cli, topic: str) -> None:
    run("topic", "produce", topic, "-b", broker, "old=1")
    with started("consume", topic, "-b", broker, "--follow", "--from-end", "--max", "1", "--json") as following:
        keys = iter(range(1_000))
        while following.poll() is None:  # it begins at the end that it finds, so some of these come before
            run("topic", "produce", topic, "-b", broker, f"new-{next(keys)}=2")
        (shown,) = pairs(following.stdout.read())
    assert shown[0].startswith("new-")


def test_a_reader_that_ends_early_ends_the_command_in_order(broker: str, run: Cli, topic: str) -> None:
    run("topic", "produce", topic, "-b", broker, "a=1")
    with started("consume", topic, "-b", broker, "--follow") as following:
        assert following.stdout.readline().split() == ["partition", "offset", "key", "value"]
        following.stdout.close()
        run("topic", "produce", topic, "-b", broker, "b=2")
        assert (following.wait(60), following.stderr.read()) == (0, "")


def test_an_open_transaction_ends_what_is_shown_and_is_named(broker: str, run: Cli, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions(60)
    for value, end in ((b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(60)  # an abort drops what was not sent
        end(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(60)
    committed = run("topic", "consume", topic, "-b", broker, "--json")
    assert pairs(committed.out) == [(None, "kept")]
    assert f"{topic}-0 ends at offset 4 of 5 for readers of committed records: a transaction is open" in committed.err
    every = run("topic", "consume", topic, "-b", broker, "--json", "--uncommitted")
    assert pairs(every.out) == [(None, "dropped"), (None, "kept"), (None, "open")]
    producer.abort_transaction(60)
    whole = run("topic", "consume", topic, "-b", broker, "--json")
    assert (pairs(whole.out), whole.err) == ([(None, "kept")], "1 record shown\n")


def test_a_record_that_is_too_large_is_named_and_the_others_are_counted(
    broker: str, run: Cli, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b"a=1\nb=" + b"x" * 2_000_000 + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    done = run("topic", "produce", topic, "-b", broker)
    assert (done.status, done.out) == (3, f"1 record written to {topic}\n")
    assert "key, value and headers of the record have 2,000,001 bytes" in done.err


def test_a_topic_without_records(broker: str, run: Cli, topic: str) -> None:
    done = run("topic", "consume", topic, "-b", broker)
    assert (done.status, done.out, done.err) == (0, "", f"{topic} has no records\n")


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_topic_that_is_not_there_is_status_1_and_is_not_created(broker: str, run: Cli, topic: str, command) -> None:
    done = run("topic", command, f"{topic}x", "-b", broker)
    assert (done.status, done.out) == (1, "")
    assert f"no topic {topic}x on {broker}; there is {topic}" in done.err
    assert f"{topic}x" not in ClusterAdmin(broker).topics(60)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create", "a b", "-b", "x:1"], "topic create a b: 'a b' cannot be the name of a topic"),
        (["create", "words:0", "-b", "x:1"], "topic create words:0: must be NAME or NAME:PARTITIONS"),
        (["create", "words", "-b", "x:1", "--config", "compact"], "--config compact: must be KEY=VALUE"),
        (["produce", "a/b", "x", "-b", "x:1"], "a/b: 'a/b' cannot be the name of a topic"),
        (["consume", "a", "-b", "x:1", "--from-end"], "--from-end shows only records that are yet to come"),
        (["consume", "a", "-b", "x:1", "--client", "nonsense"], "--client: write KEY=VALUE"),
        (["list", "-b", "x:1", "--client", "sasl.magic=1"], "'sasl.magic'"),
        (["list", "-b", "localhost"], "bootstrap_servers = 'localhost': must be HOST:PORT"),
        (["list"], "Missing option '--bootstrap-servers' / '-b'"),
    ],
)
def test_a_wrong_call_is_status_2(run: Cli, words, message) -> None:
    done = run("topic", *words)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize("words", [["create", "a"], ["list"], ["produce", "a", "x"], ["consume", "a"]])
def test_a_broker_out_of_reach_is_status_3_in_one_line(run: Cli, words) -> None:
    done = run("topic", *words, "-b", "127.0.0.1:1", "--timeout", "0.5")
    assert (done.status, done.out, done.err.count("\n")) == (3, "", 1)
    assert "127.0.0.1:1" in done.err
