"""Applications at a sidecar's socket, on a real broker: nothing is lost and nothing counts twice."""

from __future__ import annotations

import re
import socket
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kstreams_assign import Record, TopicPartition
from kstreams_assign.adapters.confluent import RecordProducer, TopicReader
from kstreams_assign.allowed_values import GROUP_PROTOCOLS
from kstreams_assign.errors import ConfigError, SidecarDisconnected, SidecarRefused
from kstreams_assign.events import ListeningEvent, RecordSetAsideEvent, TransactionAbortedEvent
from kstreams_assign.sidecar import server
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.server import WAITING_MAX
from kstreams_assign.tasks.dead_letters import read_dead_letter
from kstreams_assign.wire.framing import FRAME_BYTES_MAX
from tests.sidecar.fuzz import polite_session, run
from tests.sidecar.shop import PARTITIONS, STORE, WITHIN_S, Shop, add_up, add_up_until, sink_of

ORDERS = [b"customer-%d" % (n % 53) for n in range(2_000)]


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield running_shop
    running_shop.stop()


def work_once(session: SidecarClient) -> int:
    """Work on the next orders, without a commit; return how many."""
    while not (count := add_up(session)):
        pass
    return count


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
def test_an_application_counts_everything_and_emits_the_totals(shop: Shop, protocol: str) -> None:
    shop.send(ORDERS)
    shop.start(group_protocol=protocol)
    with shop.connect() as session:
        assert session.welcome["application_id"] == shop.name
        add_up_until(session, shop)
        assert shop.emitted() == shop.sent
        tasks = [(t["task"], t["role"], t["state"]) for t in session.tasks()]
        assert tasks == [(f"0_{p}", "active", "running") for p in range(PARTITIONS)]
        assert session.lag() == {f"0_{p}": 0 for p in range(PARTITIONS)}
        assert session.events[0]["event"] == "assigned"
        session.close()


def test_uncommitted_work_of_a_killed_application_is_discarded(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start()
    with shop.connect() as first:
        assert work_once(first)
        first.commit()
        before = shop.committed()
        assert work_once(first)
        first.put("0_0", STORE, {b"never": b"1"})
    assert shop.committed() == before
    with shop.connect() as second:
        add_up_until(second, shop)
        assert second.get("0_0", STORE, [b"never"]) == (None,)
    assert shop.emitted() == shop.sent


def test_a_requested_commit_is_done_although_its_application_died_at_once(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start()
    with shop.connect() as first:
        work_once(first)
        first.commit_later()
    with shop.connect() as second:
        add_up_until(second, shop)


def test_a_rejected_record_reaches_the_dead_letter_topic_with_the_commit_and_leaves_no_trace(shop: Shop) -> None:
    letters = f"{shop.name}-dead"
    shop.admin.create_topics({letters: 1}, 60)
    topology = {"sources": [shop.name], "stores": [STORE], "sinks": [shop.output], "on_error": "dead_letter"}
    shop.start(
        errors_dead_letter_queue_topic_name=letters,
        processing_guarantee="exactly_once_v2",
        topology={"subtopology": [topology]},
    )
    shop.send([b"ann", b"bob"])
    with shop.connect() as first:
        while not (records := first.poll(10, 1_000)):
            pass
        first.reject(records[0], ValueError("bad"))
    with shop.connect() as second:  # what the first rejected is not committed
        rejected = None
        while rejected is None:
            polled = second.poll(10, 1_000)
            for record in polled:
                second.put(record.task, STORE, {record.key or b"": b"1"})
            for record in polled:
                if record.key == b"bob":
                    rejected = second.reject(record, ValueError("no payment"), undo=True)
            for record in polled:
                if record.key == b"ann":
                    second.put(record.task, STORE, {b"ann": b"1"})
        second.commit()
    assert rejected == "dead_letter"
    shop.sent -= Counter([b"bob"])
    with shop.connect() as third:
        add_up_until(third, shop)
    with closing(
        TopicReader(shop.broker, None, {TopicPartition(letters, 0): 0}, group_id="x", read_committed=True)
    ) as r:
        found: list[Record] = []
        while not found:
            found += r.read(10, 1.0)[0]
    [letter] = map(read_dead_letter, found)
    assert letter is not None
    assert letter.record.key == b"bob"
    assert (letter.failure.exception, letter.failure.message) == ("ValueError", "no payment")
    assert "ValueError" in letter.failure.stacktrace


def test_under_exactly_once_the_applications_commit_is_the_transaction(shop: Shop) -> None:
    shop.send(ORDERS)
    sidecar = shop.start(processing_guarantee="exactly_once_v2")
    with shop.connect() as first:
        work_once(first)
        assert not shop.emitted()
        first.commit()
        work_once(first)
    with shop.connect() as second:
        add_up_until(second, shop)
    assert shop.emitted() == shop.sent
    assert shop.markers() > 0, "the output was written in transactions"
    assert not any(isinstance(event, TransactionAbortedEvent) for event in sidecar.events)


def test_some_of_the_polled_records_can_be_committed_and_the_rest_comes_again(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start()
    with shop.connect() as first:
        records = []
        while not records:
            records = first.poll(100)
        at = records[0]
        partition = f"{at.topic}-{at.partition}"
        with pytest.raises(SidecarRefused, match="bad_offset"):
            first.commit({partition: at.offset + 1_000_000})
        first.commit({partition: at.offset + 1})
        with pytest.raises(SidecarRefused, match="bad_offset"):
            first.commit({partition: at.offset})
    with shop.connect() as second:
        received = []
        while not any(record.partition == at.partition for record in received):
            received = second.poll(100)
        assert next(r.offset for r in received if r.partition == at.partition) == at.offset + 1


def test_an_application_that_hangs_does_not_hold_up_the_group_and_keeps_only_the_tasks_that_stay(shop: Shop) -> None:
    shop.send(ORDERS)
    first_worker = shop.start(1)
    with shop.connect(1) as slow:
        first_worker.until_running(PARTITIONS)
        polled: Counter[str] = Counter()
        while len(polled) < PARTITIONS:
            polled.update(record.task for record in slow.poll(500))
        for task in polled:
            slow.put(task, STORE, {b"half-done": b"1"})
        second_worker = shop.start(2)
        second_worker.until_running(PARTITIONS // 2)  # while the slow application is silent, with records to process
        gone = next(task for task in polled if _revoked(slow, task))
        (kept,) = polled.keys() - {gone}
        assert slow.get(kept, STORE, [b"half-done"]) == (b"1",)
        with pytest.raises(SidecarRefused, match="task_migrated"):
            slow.put(gone, STORE, {b"late": b"1"})
        slow.delete(kept, STORE, [b"half-done"])
    with shop.connect(1) as first, shop.connect(2) as second:
        while shop.committed() != shop.sent:
            for session in (first, second):
                add_up(session)
                session.commit()
        assert second.get(gone, STORE, [b"half-done"]) == (None,)


def _revoked(session: SidecarClient, task: str) -> bool:
    session.tasks()  # brings the notifications that were pushed before its reply
    return any(event["event"] == "revoked" and task in event["tasks"] for event in session.events)


def test_a_task_that_was_lost_and_assigned_again_takes_no_earlier_writes(shop: Shop) -> None:
    shop.send(ORDERS)
    first = shop.start(1)
    with shop.connect(1) as session:
        first.until_running(PARTITIONS)
        polled: set[str] = set()
        while len(polled) < PARTITIONS:
            polled |= {record.task for record in session.poll()}
        shop.start(2).until_running(PARTITIONS // 2)
        first.until_running(PARTITIONS // 2)
        gone = "0_0" if _revoked(session, "0_0") else "0_1"
        shop.sidecars.pop().stop()
        first.until_running(PARTITIONS)
        with pytest.raises(SidecarRefused, match=r"task_migrated.*assigned again"):
            session.put(gone, STORE, {b"of-before": b"1"})
        records = session.poll(10, 30_000)
        assert session.put(records[0].task, STORE, {b"of-now": b"1"}) == 1
    with shop.connect() as second:
        add_up_until(second, shop)


def test_sessions_that_work_through_a_rebalance_lose_nothing_and_count_nothing_twice(shop: Shop) -> None:
    first_worker = shop.start(1)
    with shop.connect(1) as first:
        first_worker.until_running(PARTITIONS)
        shop.send(ORDERS)
        work_once(first)
        second_worker = shop.start(2)
        with shop.connect(2) as second:
            sent = 0
            while sent < 20 or not second.events:
                shop.send(ORDERS[: 7 * PARTITIONS])
                sent += 1
                for session in (first, second):
                    add_up(session, 20, 20)
                    session.commit_later()
            second_worker.until_running(PARTITIONS // 2)
            while shop.committed() != shop.sent:
                for session in (first, second):
                    add_up(session)
                    session.commit()
            assert shop.emitted() == shop.sent


def test_a_second_session_gets_the_error_that_the_first_is_open(shop: Shop) -> None:
    shop.start()
    with shop.connect(), pytest.raises(SidecarRefused, match="busy"):
        shop.connect()
    shop.connect().close()


def test_silent_connections_are_limited_and_do_not_lock_out_an_application(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HELLO_TIMEOUT_S", 100.0)  # no silent session is closed during the test
    shop.start().until_running(PARTITIONS)
    with ExitStack() as stack:
        silent = [stack.enter_context(_silent(shop)) for _ in range(3 * WAITING_MAX)]
        assert [each.recv(1) for each in silent[: 2 * WAITING_MAX]] == [b""] * 2 * WAITING_MAX, "the oldest are closed"
        polite_session(str(shop.folder / "1.sock"))
        with shop.connect() as session:
            silent += [stack.enter_context(_silent(shop)) for _ in range(2 * WAITING_MAX)]
            assert [each.recv(1) for each in silent[2 * WAITING_MAX : -WAITING_MAX]] == [b""] * 2 * WAITING_MAX
            assert session.tasks(), "the open session is not one of those that wait"


def _silent(shop: Shop) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(60)
    made.connect(str(shop.folder / "1.sock"))
    return made


def test_malformed_bytes_get_an_error_and_a_closed_connection_and_the_next_session_works(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start()
    with shop.connect() as session:
        work_once(session)
        session._socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(SidecarRefused, match="malformed"):
            session.tasks()
        with pytest.raises(SidecarDisconnected):
            session.tasks()
    with shop.connect() as second:
        add_up_until(second, shop)


def test_columns_ranges_and_deletes_show_the_same_as_records(shop: Shop) -> None:
    shop.send([b"ann", b"bob", b"ann"])
    shop.start()
    with shop.connect() as session:
        rows = set()
        while len(rows) < 3:
            for c in session.poll_columns():
                assert c.headers is None
                rows |= {(c.task, o, k, v) for o, k, v in zip(c.offset, c.key, c.value, strict=True)}
    with shop.connect() as session:
        redelivered = set()
        while len(redelivered) < 3:
            redelivered |= {(r.task, r.offset, r.key, r.value) for r in session.poll()}
        assert redelivered == rows
        entries = {b"k%d" % n: b"v" for n in range(5)}
        session.put("0_0", STORE, entries)
        session.commit()
        session.delete("0_0", STORE, [b"k1"])
        session.put("0_0", STORE, {b"k9": b"new"})
        page = session.range("0_0", STORE, b"k0", b"k9", limit=3)
        assert ([key for key, _ in page.entries], page.more) == ([b"k0", b"k2", b"k3"], True)
        page = session.range("0_0", STORE, reverse=True)
        assert ([key for key, _ in page.entries], page.more) == ([b"k9", b"k4", b"k3", b"k2", b"k0"], False)
        session.put("0_0", STORE, {b"j": b"v", b"l": b"v"})
        page = session.prefix_scan("0_0", STORE, b"k", limit=2)
        assert ([key for key, _ in page.entries], page.more) == ([b"k0", b"k2"], True)
        page = session.prefix_scan("0_0", STORE, b"k", b"k2\x00")
        assert ([key for key, _ in page.entries], page.more) == ([b"k3", b"k4", b"k9"], False)
        page = session.prefix_scan("0_0", STORE, b"k", end=b"k3", reverse=True)
        assert ([key for key, _ in page.entries], page.more) == ([b"k2", b"k0"], False)
        assert session.approximate_count("0_0", STORE) == 7


def test_a_record_that_the_brokers_would_refuse_is_refused_before_the_commit(shop: Shop) -> None:
    first = shop.start(buffered_records_max=100)
    shop.send(ORDERS[:500])
    with shop.connect() as session:
        first.until_running(PARTITIONS)
        with pytest.raises(SidecarRefused, match="no_such_topic"):
            session.emit("0_0", "elsewhere", [b"k"], [b"v"])
        out_of_range = {"topic": sink_of(session), "key": b"k", "value": b"v", "partition": PARTITIONS}
        with pytest.raises(SidecarRefused, match=r"no_such_topic.*no partition"):
            session.emit_records("0_0", [out_of_range])
        with pytest.raises(SidecarRefused, match="too_large"):
            session.put("0_0", STORE, {b"k": b"v" * 1_048_588})
        with pytest.raises(SidecarRefused, match="no_such_store"):
            session.put("0_0", "elsewhere", {b"k": b"v"})
        with pytest.raises(SidecarRefused, match="task_migrated"):
            session.put("0_7", STORE, {b"k": b"v"})
        with pytest.raises(SidecarRefused, match=r"bad_request.*one length"):
            session.emit("0_0", sink_of(session), [b"k"], [])
        record = {"topic": sink_of(session), "key": None, "value": b"1", "partition": 1, "headers": [("h", None)]}
        assert session.emit_records("0_0", [{**record, "timestamp_ms": 7}]) == 1
        polled = 0
        while polled < 100:
            polled += len(session.poll(30, 30_000))
        with pytest.raises(SidecarRefused, match="uncommitted_limit"):
            session.poll()
        session.commit()
        assert session.poll(30, 30_000)


def test_the_socket_is_private_to_its_user_and_deleted_with_the_worker(shop: Shop) -> None:
    path = shop.folder / "1.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    running = shop.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="another process listens there; end it, or choose another path"):
        shop.start(1, state_dir=str(shop.folder / "other"))
    running.stop()
    assert not path.exists()


def test_tcp_accepts_only_the_token(shop: Shop) -> None:
    token = "a token of some length"
    running = shop.start(socket="tcp://127.0.0.1:0", socket_token=token)
    running.until_event(ListeningEvent)
    address = running.sidecar.address
    for wrong in (None, "another token of that"):
        with pytest.raises(SidecarRefused, match="unauthorized"):
            SidecarClient(address, token=wrong)
    SidecarClient(address, token=token).close()


def test_an_answer_of_the_worker_is_at_most_a_frame(shop: Shop) -> None:
    first = shop.start()
    with shop.connect() as session:
        first.until_running(PARTITIONS)
        for n in range(20):
            session.put("0_0", STORE, {b"%02d" % n: b"v" * 900_000})
        with pytest.raises(SidecarRefused, match="too_large"):
            session.get("0_0", STORE, [b"%02d" % n for n in range(20)])
        page = session.range("0_0", STORE)
        assert page.more
        assert 15 <= len(page.entries) < 20
        session.commit()
        shop.send_large(20, 900_000)
        counts, offsets = [], []
        while len(offsets) < 20:
            records = session.poll(1_000, 30_000)
            counts.append(len(records))
            offsets += [record.offset for record in records]
        assert max(counts) < 10
        assert offsets == sorted(offsets)


def test_an_input_record_that_fits_no_frame_is_not_committed_before_it_is_set_aside(shop: Shop) -> None:
    large = f"{shop.name}-large"
    limit = {"max.message.bytes": str(2 * FRAME_BYTES_MAX)}
    shop.admin.create_topics({large: 1}, WITHIN_S, configs={large: limit})
    client = {"message.max.bytes": str(2 * FRAME_BYTES_MAX)}
    with closing(RecordProducer(shop.broker, client, delivery_timeout_ms=60_000)) as producer:
        for value in (b"1", bytes(FRAME_BYTES_MAX), b"3"):
            producer.produce(large, 0, b"k", value)
        producer.flush(WITHIN_S)
    subtopology = {"sources": [large], "stores": [STORE]}
    shop.start(topology={"subtopology": [subtopology]})
    with shop.connect() as session:
        assert [record.offset for record in session.poll(10, 30_000)] == [0]
        with pytest.raises(SidecarRefused, match="too_large"):
            session.poll(10, 30_000)
        session.commit()
    shop.sidecars.pop().stop()
    skipping = shop.start(topology={"subtopology": [{**subtopology, "on_error": "skip"}]})
    with shop.connect() as session:
        assert [record.offset for record in session.poll(10, 30_000)] == [2]
        session.commit()
    assert [event.offset for event in skipping.events if isinstance(event, RecordSetAsideEvent)] == [1]


def test_hostile_frames_change_neither_the_worker_nor_the_counts(shop: Shop) -> None:
    shop.send(ORDERS)
    worker = shop.start()
    worker.until_running(PARTITIONS)
    with shop.connect() as first:
        while add_up(first):
            first.commit()
    summary = run(2_000, seed=11, path=str(shop.folder / "1.sock"))
    assert summary["sessions"] > 10
    assert worker.error is None
    shop.send(ORDERS)
    with shop.connect() as second:
        assert {task["state"] for task in second.tasks()} == {"running"}


def test_an_application_reads_a_global_table(shop: Shop) -> None:
    names = f"{shop.name}-names"
    shop.admin.create_topics({names: 2}, 60, configs={names: {"cleanup.policy": "compact"}})
    customers = {customer: b"name of %s" % customer for customer in ORDERS}
    with closing(RecordProducer(shop.broker, delivery_timeout_ms=60_000)) as producer:
        for customer, name in customers.items():
            producer.produce(names, None, customer, name)
        producer.flush(60)
    shop.send(ORDERS)
    topology = {"sources": [shop.name], "stores": [STORE], "sinks": [shop.output]}
    shop.start(topology={"subtopology": [topology], "global_table": [{"name": "names", "topic": names}]})
    with shop.connect() as session:
        add_up_until(session, shop)
        assert dict(session.range("0_1", "names").entries) == customers
        assert session.get("0_0", "names", [ORDERS[0], b"none"]) == (customers[ORDERS[0]], None)
        with pytest.raises(SidecarRefused, match="is a global table, which is read-only") as refused:
            session.put("0_0", "names", {b"a": b"1"})
        assert refused.value.code == "no_such_store"
