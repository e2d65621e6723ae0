"""Keys read from anywhere on a real broker: by every process and by a client, while processes come and are killed.

Each record adds 1 to its word's count, so a value is an age: it must be at least the count that was committed before
the query (less what ``max_lag`` allows), and at most what was sent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign import QueryClient
from kstreams_assign.allowed_values import GROUP_PROTOCOLS
from kstreams_assign.errors import QueryRefused, StoreNotAvailable
from kstreams_assign.events import AssignedEvent, QueryListeningEvent
from kstreams_assign.insight.get_command import TOKEN_VARIABLE
from kstreams_assign.query.client import Connections
from kstreams_assign.query.messages import Get, Unanswered
from tests.adapters.confluent_cluster import until
from tests.worker.app import PARTITIONS, App, Running
from tests.worker.process import Process
from tests.worker.streams_settings import set_group

TOKEN = "correct horse battery"
SETTINGS = {
    "query": "127.0.0.1:0",
    "query_token": TOKEN,
    "num_standby_replicas": 1,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 200,
}
WORDS = [b"word-%d" % n for n in range(20)]


def endpoint_of(running: Running) -> str:
    running.until_event(QueryListeningEvent)
    return running.reported(QueryListeningEvent)[0].endpoint


def process_endpoint(process: Process) -> str:
    process.until(lambda _: bool(process.named("query_listening")))
    return process.named("query_listening")[0]["endpoint"]


class Readers:
    """Threads that query all the time, each in its way, and keep every answer that no commit explains."""

    def __init__(self) -> None:
        self.committed: Counter[bytes] = Counter()
        """Counts that were committed before now; replaced, never changed."""
        self.sent: Counter[bytes] = Counter()
        self.wrong: list[object] = []
        self.answered: Counter[str] = Counter()
        self.unavailable = 0
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, name: str, query, **arguments) -> None:
        thread = threading.Thread(target=self._run, args=(name, query, arguments), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, name, query, arguments) -> None:
        while not self._stopping.is_set():
            for word in WORDS:
                least = self.committed[word] - arguments.get("max_lag", 0)
                try:
                    result = query("totals", word, timeout_s=0.5, **arguments)
                except StoreNotAvailable as cause:
                    self.unavailable += 1
                    if cause.retry_after_ms <= 0:
                        self.wrong.append(cause)
                    continue
                except BaseException as cause:  # noqa: BLE001  # any other error is wrong
                    self.wrong.append(cause)
                    continue
                self.answered[f"{name} {result.role}"] += 1
                if not least <= int(result.value or 0) <= self.sent[word]:
                    self.wrong.append((name, word, result, least, self.sent[word]))

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)


def send_and_commit(app: App, readers: Readers, times: int = 1) -> None:
    """Send every word, and raise what is promised once it is committed."""
    for _ in range(times):
        readers.sent = app.sent + Counter(WORDS)
        app.send(WORDS)
        app.until_committed()
        readers.committed = Counter(app.sent)


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_every_answer_is_committed_while_a_process_joins_and_one_is_killed(
    broker: str, tmp_path: Path, guarantee: str, protocol: str
) -> None:
    app = App(broker, f"query-{guarantee.replace('_', '-')}-{protocol}", tmp_path)
    readers = Readers()
    settings = {**SETTINGS, "processing_guarantee": guarantee, "group_protocol": protocol}
    if protocol == "streams":
        set_group(
            broker, app.name, num_standby_replicas=1, session_timeout_ms=6_000, heartbeat_interval_ms=200
        )  # of a streams group the brokers have these settings
    doomed = None
    try:
        first = app.start(1, **settings)
        first.until_running(PARTITIONS)
        client = QueryClient([endpoint_of(first)], token=TOKEN, application_id=app.name)
        send_and_commit(app, readers)
        readers.add("worker", first.worker.query)
        readers.add("client", client.query)
        readers.add("replica", client.query, max_lag=5)
        doomed = Process(app, 2, **settings)
        doomed.until_running(PARTITIONS // 2)
        other = QueryClient([process_endpoint(doomed)], token=TOKEN)
        send_and_commit(app, readers, 3)
        for word, count in app.sent.items():
            assert int(other.query("totals", word, timeout_s=30).value) == count
            assert int(first.worker.query("totals", word, timeout_s=30).value) == count
        places = {first.worker.query("totals", word).endpoint for word in WORDS}
        assert places == {endpoint_of(first), process_endpoint(doomed)}
        doomed.kill()
        first.until_running(PARTITIONS)
        send_and_commit(app, readers, 2)
        for word, count in app.sent.items():
            assert int(first.worker.query("totals", word, timeout_s=30).value) == count
        other.close()
        client.close()
    finally:
        readers.stop()
        app.stop()
    assert readers.wrong == []
    assert {"worker active", "client active", "replica active"} <= readers.answered.keys()


def test_processes_of_a_streams_group_name_owners_as_of_the_same_epoch(app: App) -> None:
    """A client compares these numbers; each process counts its own assignments."""
    set_group(app.broker, app.name, heartbeat_interval_ms=200, initial_rebalance_delay_ms=0)
    settings = {"query": "127.0.0.1:0", "query_token": TOKEN, "group_protocol": "streams", "warm_join": False}
    workers = [app.start(1, **settings)]
    workers[0].until_running(PARTITIONS)
    workers.append(app.start(2, **settings))
    for worker in workers:
        worker.until_running(PARTITIONS // 2)
    assert len({worker.reported(AssignedEvent)[-1].generation for worker in workers}) == 2
    gets = [Get("totals", b"word", partition) for partition in range(PARTITIONS)]

    def epochs() -> list[set[int]]:
        answers = [[connections.ask(endpoint_of(worker), get) for get in gets] for worker in workers]
        return [{each.owners.generation for each in own if isinstance(each, Unanswered)} for own in answers]

    with closing(Connections(TOKEN, app.name)) as connections:
        first, second = until(epochs, lambda both: both[0] == both[1])
    assert len(first) == len(second) == 1


def test_a_store_or_a_token_that_is_wrong_is_refused_and_a_worker_that_has_ended_says_so(app: App) -> None:
    running = app.start(1, query="127.0.0.1:0", query_token=TOKEN)
    running.until_running(PARTITIONS)
    app.send([b"word"])
    app.until_committed()
    endpoint = endpoint_of(running)
    with QueryClient([endpoint], token=TOKEN) as client:
        assert client.query("totals", b"word").value == b"1"
        assert client.query("totals", b"none").value is None
        with pytest.raises(QueryRefused, match=r"does_not_exist: .*'totls'.*declares totals"):
            client.query("totls", b"word")
        with pytest.raises(QueryRefused, match="partition = 9: store 'totals' has partitions 0 to 3"):
            client.query("totals", b"word", partition=9)
        home = running.worker.locate("totals", b"word").task.partition
        assert client.query("totals", b"word", partition=(home + 1) % PARTITIONS).value is None
    with QueryClient([endpoint], token="another horse battery") as client, pytest.raises(QueryRefused, match="unauth"):
        client.query("totals", b"word")
    app.stop()
    with pytest.raises(StoreNotAvailable, match="the worker is not running"):
        running.worker.query("totals", b"word")


def get(*words: str, token: str | None = TOKEN) -> tuple[int, str, str]:
    """The command's exit status, and what it printed to each output."""
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    if token is not None:
        environment[TOKEN_VARIABLE] = token
    command = [sys.executable, "-m", "kstreams_assign", "get", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
def test_the_command_finds_a_process_by_the_group_and_prints_the_value(app: App, tmp_path: Path, protocol: str) -> None:
    running = app.start(1, query="127.0.0.1:0", query_token=TOKEN, group_protocol=protocol)
    running.until_running(PARTITIONS)
    app.send([b"word", b"word", b"\xff"])
    app.until_committed()
    by_group, endpoint = ("-b", app.broker), endpoint_of(running)
    assert get(app.name, "totals", "word", *by_group) == (0, "2\n", "")
    status, out, _ = get(app.name, "totals", "ff", "--hex", "--json", "--query", endpoint)
    facts = {"store": "totals", "key": {"hex": "ff"}, "value": "1", "role": "active", "lag": 0, "timestamp_ms": None}
    assert (status, json.loads(out)) == (0, {**facts, "endpoint": endpoint})
    assert get(app.name, "totals", "none", *by_group)[:2] == (1, "(none)\n")
    status, _, error = get(app.name, "totals", "word", *by_group, token=None)
    assert (status, "unauthorized" in error) == (2, True)
    (tmp_path / "token").write_text(TOKEN + "\n")
    by_file = ("--token-file", str(tmp_path / "token"))
    assert get(app.name, "totals", "word", *by_group, *by_file, token=None)[:2] == (0, "2\n")
    assert get("other", "totals", "word", "--query", endpoint)[0] == 2
    assert get(app.name, "totals", "word")[0] == 2
    app.stop()
    status, _, error = get(app.name, "totals", "word", "--query", endpoint, "--timeout", "1")
    assert (status, "ask again in" in error) == (3, True)
