"""The test driver with Python values: typed topics and stores."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kstreams_assign import (
    Batch,
    ConfigError,
    Serdes,
    SerializationError,
    Store,
    Subtopology,
    Task,
    TopologyTestDriver,
    TypedTimestampedKeyValueStore,
    ValueAndTime,
)


@dataclass
class Payment:
    amount: int


def add(task: Task, payments: Batch) -> None:
    totals = task.timestamped_store("totals", key=str, value=int)
    changes = task.sink("changes", key=str, value=int)
    for account, payment in payments.pairs(key=str, value=Payment):
        assert account is not None
        total = None if payment is None else (totals.get(account) or 0) + payment.amount
        totals.put(account, total)
        changes.emit(account, total)


TOPOLOGY = [Subtopology(add, sources=["payments"], stores=[Store("totals", timestamped=True)], sinks=["changes"])]


def test_values_go_in_and_come_out() -> None:
    with TopologyTestDriver(TOPOLOGY, partitions={"payments": 3, "changes": 3}) as driver:
        payments = driver.input_topic("payments", key=str, value=Payment)
        changes = driver.output_topic("changes", key=str, value=int)
        payments.pipe("ann", Payment(5), 7, headers=[("h", b"1")], partition=2)
        payments.pipe("ann", Payment(6), 8, partition=2)
        assert changes.read() == [("ann", 5), ("ann", 11)]
        payments.pipe("ann", None, 9, partition=2)
        assert changes.read() == [("ann", None)]
        assert changes.read() == []


def test_a_store_is_read_and_filled_with_values() -> None:
    with TopologyTestDriver(TOPOLOGY) as driver:
        totals = driver.timestamped_store("totals", key=str, value=int)
        assert type(driver.store("totals", key=str, value=int)) is TypedTimestampedKeyValueStore
        totals.put("ann", 40)
        driver.input_topic("payments", key=str, value=Payment).pipe("ann", Payment(2), 7)
        assert totals.get_with_timestamp("ann") == ValueAndTime(42, 7)
        assert driver.store("totals").get(b"ann") == Serdes.long.serialize(42)


def test_wrong_topics_and_types_are_refused() -> None:
    with TopologyTestDriver(TOPOLOGY) as driver:
        with pytest.raises(ConfigError, match="no subtopology reads it"):
            driver.input_topic("changes", key=str, value=int)
        with pytest.raises(ConfigError, match="does not write to it"):
            driver.output_topic("payments", key=str, value=int)
        with pytest.raises(ConfigError, match="value = <class 'dict'>"):
            driver.output_topic("changes", key=str, value=dict)
        with pytest.raises(ConfigError, match="value = None"):
            driver.timestamped_store("totals", key=str)  # type: ignore[call-overload]


def test_what_cannot_be_coded_is_refused_with_the_topic() -> None:
    with TopologyTestDriver(TOPOLOGY) as driver:
        with pytest.raises(SerializationError, match=r"pipe to 'payments', .*: the value cannot be written as JSON of"):
            driver.input_topic("payments", key=str, value=Payment).pipe("ann", "five")  # type: ignore[arg-type]
        driver.input_topic("payments", key=str, value=Payment).pipe("ann", Payment(5))
        with pytest.raises(SerializationError, match=r"read of 'changes', changes-0 at offset 0: the value cannot be"):
            driver.output_topic("changes", key=str, value=Serdes.integer).read()


def test_records_stay_unread_where_one_cannot_be_decoded() -> None:
    def echo(task: Task, records: Batch) -> None:
        for record in records:
            task.emit("out", record.key, record.value)

    with TopologyTestDriver([Subtopology(echo, sources=["in"], sinks=["out"])]) as driver:
        driver.pipe_many("in", [(b"ann", b"5"), (b"bob", b"\xff"), (b"cid", b"7")])
        out = driver.output_topic("out", key=str, value=str)
        for _ in range(2):
            with pytest.raises(SerializationError, match=r"read of 'out', out-0 at offset 1: the value cannot be read"):
                out.read()
        assert [record.value for record in driver.read("out")] == [b"5", b"\xff", b"7"]
        assert out.read() == []
