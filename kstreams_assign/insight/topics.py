"""``kstreams-assign topic``, the work: create topics, list them, write lines into one, show the records of one.

What must not live here: how text becomes a record (``record_text``). Whatever a command does, it first asks whether
the topic is there: a broker may create a topic as soon as a client names it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer, TopicReader
from kstreams_assign.errors import BrokerUnavailable, ConfigError, TopicNotFound
from kstreams_assign.insight.record_text import NO_BYTES, as_facts, readable, split_line
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Record
from kstreams_assign.topology.new_topics import read_new_topics, refuse_wrong_name

LEADER_TIMEOUT_S = 2.0
PROGRESS_S = 2.0
BATCH = 500
WAIT_S = 0.2
KEY_WIDTH_MAX = 24


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a command works: the brokers, and how to reach them."""

    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 10.0

    def admin(self) -> ClusterAdmin:
        """Return an admin client that a broker has answered. Raises ``BrokerUnavailable``, ``ConfigError``."""
        admin = ClusterAdmin(self.bootstrap_servers, self.client)
        admin.reach(self.timeout_s)
        return admin


@dataclass(frozen=True, slots=True)
class Reading:
    """Which records ``consume`` shows. ``records_max`` None: all."""

    follow: bool = False
    from_beginning: bool = True
    records_max: int | None = None
    uncommitted: bool = False
    group: str = "kstreams-assign"


def create(cluster: Cluster, texts: Sequence[str], settings: Sequence[str] = (), *, as_json: bool) -> None:
    """Create the topics that do not exist, with these settings (``KEY=VALUE``).

    Raises ``ConfigError`` for one with another number of partitions, and for a setting that the brokers refuse.
    """
    wanted = read_new_topics(texts, "topic create")
    config = dict(map(_setting, settings))
    admin = cluster.admin()
    existing = admin.partition_counts(wanted, cluster.timeout_s)
    for name, count in existing.items():
        if count != wanted[name]:
            raise ConfigError(
                f"topic create {name}: it exists with {_count(count, 'partition')}, not {wanted[name]}; "
                f"nothing was created; take another name, or {name}:{count}"
            )
    configs = {name: config for name in wanted if config and name not in existing}
    for name, why in admin.refused_settings(configs, cluster.timeout_s).items() if configs else ():
        raise ConfigError(f"topic create {name}: {why}; nothing was created; check --config")
    admin.create_topics(wanted, cluster.timeout_s, configs=configs)
    if as_json:
        facts = [{"name": name, "partitions": wanted[name], "created": name not in existing} for name in wanted]
        print(json.dumps(facts))
        return
    for name, count in wanted.items():
        print(f"{name}: {'exists already' if name in existing else 'created'}, with {_count(count, 'partition')}")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"--config {text}: must be KEY=VALUE, as in cleanup.policy=compact")
    return key, value


def show_topics(cluster: Cluster, *, internal: bool, as_json: bool) -> None:
    """Print the topics with their partitions and records, Kafka's own only where ``internal`` is set."""
    facts = _topic_facts(cluster, internal=internal)
    if as_json:
        print(json.dumps(facts))
        return
    if not facts:
        print(
            f"no topics on {cluster.bootstrap_servers}; kstreams-assign topic create NAME creates one", file=sys.stderr
        )
        return
    Console().print(topic_table(facts))


def topic_table(facts: Iterable[Mapping[str, Any]]) -> Table:
    """Return a row a topic."""
    table = Table(box=box.ROUNDED, header_style="bold")
    table.add_column("topic", overflow="fold")
    table.add_column("partitions", justify="right", no_wrap=True)
    table.add_column("records", justify="right", no_wrap=True)
    for topic in facts:
        records = "?" if topic["records"] is None else f"{topic['records']:,}"
        table.add_row(topic["name"], f"{topic['partitions']:,}", records)
    return table


def _topic_facts(cluster: Cluster, *, internal: bool) -> list[dict[str, Any]]:
    """Return a row a topic. ``records`` is the distance from first to end offset; null if a leader does not answer."""
    admin = cluster.admin()
    counts = {
        name: count
        for name, count in sorted(admin.topics(cluster.timeout_s).items())
        if internal or not name.startswith("__")
    }
    partitions = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
    bounds, _ = admin.bounds_and_ids(partitions, cluster.timeout_s, min(LEADER_TIMEOUT_S, cluster.timeout_s))
    rows = []
    for name, count in counts.items():
        offsets = [bounds.get(TopicPartition(name, number)) for number in range(count)]
        known = [pair for pair in offsets if pair is not None]
        rows.append(
            {
                "name": name,
                "partitions": count,
                "records": sum(end - start for start, end in known) if len(known) == count else None,
                "start_offsets": [pair and pair[0] for pair in offsets],
                "end_offsets": [pair and pair[1] for pair in offsets],
            }
        )
    return rows


def produce(cluster: Cluster, topic: str, lines: Iterable[bytes], separator: str, *, as_json: bool) -> None:
    """Write a record for each line that is not empty, and print how many were written.

    Ctrl-C ends the lines. Raises ``TopicNotFound``, ``BrokerError``.
    """
    refuse_wrong_name(topic, topic)
    existing_partitions(cluster.admin(), cluster, topic)
    written = without_key = 0

    def count(_offset: int) -> None:
        nonlocal written
        written += 1

    producer = RecordProducer(
        cluster.bootstrap_servers, cluster.client, delivery_timeout_ms=int(cluster.timeout_s * 1000)
    )
    with closing(producer):
        try:
            for line in _progressing(lines):
                key, value = split_line(line, separator.encode())
                without_key += key is None
                producer.produce(topic, None, key, value, on_offset=count)
        except KeyboardInterrupt:
            pass
        finally:
            try:
                producer.flush(cluster.timeout_s)
            finally:
                _print_written(topic, written, without_key, as_json=as_json)


def _print_written(topic: str, records: int, without_key: int, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"topic": topic, "records": records, "without_key": without_key}))
        return
    keyless = f", {without_key:,} of them without a key" if without_key else ""
    print(f"{_count(records, 'record')} written to {topic}{keyless}")


def _progressing(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that are not empty, without their ends; on standard error say every two seconds how many."""
    due = time.monotonic() + PROGRESS_S
    number = 0
    for text in lines:
        line = text.rstrip(b"\r\n")
        if not line:
            continue
        yield line
        number += 1
        if time.monotonic() >= due:
            print(f"{number:,} records read", file=sys.stderr, flush=True)
            due = time.monotonic() + PROGRESS_S


def consume(cluster: Cluster, topic: str, reading: Reading, *, as_json: bool) -> None:
    """Print the records of a topic until its end, or on and on until Ctrl-C.

    Raises ``TopicNotFound``, ``BrokerUnavailable`` where nothing arrives for ``timeout_s`` before the end is reached.
    """
    if not (reading.follow or reading.from_beginning):
        raise ConfigError("--from-end shows only records that are yet to come: give --follow with it")
    refuse_wrong_name(topic, topic)
    admin = cluster.admin()
    bounds = admin.bounds(existing_partitions(admin, cluster, topic), cluster.timeout_s)
    positions = {at: start if reading.from_beginning else end for at, (start, end) in bounds.items()}
    ends = {at: end for at, (start, end) in bounds.items() if end > start}
    if not (ends or reading.follow):
        print(f"{topic} has no records", file=sys.stderr)
        return
    shown = 0
    rows = _Rows()
    reader = TopicReader(
        cluster.bootstrap_servers,
        cluster.client,
        positions,
        group_id=reading.group,
        read_committed=not reading.uncommitted,
    )
    with closing(reader):
        try:
            for record in records_until_end(reader, topic, ends, cluster.timeout_s, reading):
                shown += 1
                print(json.dumps(as_facts(record)) if as_json else rows.line(record), flush=reading.follow)
        except KeyboardInterrupt:
            pass
    print(f"{_count(shown, 'record')} shown", file=sys.stderr)


def records_until_end(
    reader: TopicReader, topic: str, ends: Mapping[TopicPartition, int], timeout_s: float, reading: Reading
) -> Iterator[Record]:
    """Yield records until each partition has come to the end that it had at first; in ``follow`` without an end.

    Raises ``BrokerUnavailable`` where nothing arrives for ``timeout_s`` before that.
    """
    left = reading.records_max
    unread = dict(ends)
    silent_s = 0.0  # without the time that the caller takes for the records
    while (reading.follow or unread) and left != 0:
        asked_s = time.monotonic()
        records, ended = reader.read(BATCH, WAIT_S)
        silent_s = 0.0 if records or ended else silent_s + time.monotonic() - asked_s
        for record in records:
            at = TopicPartition(record.topic, record.partition)
            if reading.follow or record.offset < ends.get(at, 0):
                yield record
                left = None if left is None else left - 1
                if left == 0:
                    return
            if record.offset >= ends.get(at, 0) - 1:
                unread.pop(at, None)
        for at, offset in ended.items():
            end = unread.pop(at, None)
            if end is not None and offset < end:
                print(
                    f"{at} ends at offset {offset:,} of {end:,} for readers of committed records: a transaction is "
                    "open there; kstreams-assign transactions looks into it, --uncommitted shows what it wrote",
                    file=sys.stderr,
                )
        if not reading.follow and silent_s > timeout_s:
            raise BrokerUnavailable(f"{topic}: no record arrived for {timeout_s:g} s before the end")


class _Rows:
    """Records as rows below a heading; the column of keys grows with what it has to hold."""

    def __init__(self) -> None:
        self._key_width = len(NO_BYTES)
        self._begun = False

    def line(self, record: Record) -> str:
        key = readable(record.key)
        self._key_width = max(self._key_width, min(len(key), KEY_WIDTH_MAX))
        row = f"{record.partition:>9}  {record.offset:>6}  {key:<{self._key_width}}  {readable(record.value)}"
        if self._begun:
            return row
        self._begun = True
        return f"partition  offset  {'key':<{self._key_width}}  value\n{row}"


def existing_partitions(admin: ClusterAdmin, cluster: Cluster, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Raises ``TopicNotFound``."""
    topics = admin.topics(cluster.timeout_s)
    if topic not in topics:
        alike = get_close_matches(topic, topics, n=3)
        hint = f"there is {', '.join(alike)}" if alike else f"kstreams-assign topic create {topic} creates it"
        raise TopicNotFound(f"no topic {topic} on {cluster.bootstrap_servers}; {hint}")
    return [TopicPartition(topic, number) for number in range(topics[topic])]


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
