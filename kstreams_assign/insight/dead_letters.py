"""``kstreams-assign dead-letters``, the work: list the dead letters of an application, and send them again.

Sending again is a transaction for each few hundred letters: the records go back to their input partitions, and the
offsets up to which this is done are committed in a group of its own. So a letter is sent again once, also when the
command is interrupted or called twice. What must not live here: what a dead letter is (``tasks.dead_letters``).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kstreams_assign.adapters.confluent import CommittedOffsets, TopicReader, TransactionalProducer
from kstreams_assign.group.values import MemberId
from kstreams_assign.insight.record_text import as_facts, readable
from kstreams_assign.insight.topics import Cluster, Reading, existing_partitions, records_until_end
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.dead_letters import DeadLetter, read_dead_letter
from kstreams_assign.tasks.record import Record

BATCH = 500
NO_MEMBER = MemberId(-1, "", None)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to do. ``sent_too``: list also the letters that have been sent again."""

    cluster: Cluster
    application_id: str
    topic: str
    sent_too: bool = False
    as_json: bool = False

    @property
    def group(self) -> str:
        """Return the group whose committed offsets say which letters have been sent again."""
        return f"{self.application_id}-dead-letters"


def list_letters(asked: Asked) -> None:
    """Print each dead letter. Raises ``TopicNotFound``, ``BrokerUnavailable``."""
    causes: Counter[str] = Counter()
    strangers = 0
    for record in _records(asked):
        letter = read_dead_letter(record)
        if letter is None:
            strangers += 1
            continue
        causes[letter.failure.exception] += 1
        print(_fact(record, letter) if asked.as_json else _line(letter))
    for cause, count in causes.most_common():
        print(f"{count:,} of {readable(cause.encode())}", file=sys.stderr)
    _print_strangers(asked, strangers)
    print(f"{_letters(causes.total())} in {asked.topic}", file=sys.stderr)


def resend(asked: Asked) -> int:
    """Send the letters again that have not been; return how many could not be. Raises as ``list_letters``."""
    cluster = asked.cluster
    sent = left = 0
    producer = TransactionalProducer(
        cluster.bootstrap_servers, cluster.client, group_id=asked.group, transactional_id=asked.group
    )
    with closing(producer):
        producer.prepare(cluster.timeout_s)  # an interrupted call may have left a transaction open
        counts = cluster.admin().topics(cluster.timeout_s)
        letters = _records(asked)
        while batch := list(islice(letters, BATCH)):
            records, refused = _to_resend(batch, counts)
            _send(producer, records, batch, cluster.timeout_s)
            sent, left = sent + len(records), left + len(refused)
            for letter, why in refused:
                print(
                    f"{letter.topic}-{letter.partition} offset {letter.offset}: not sent again: {why}", file=sys.stderr
                )
            print(f"{_letters(sent)} sent again", file=sys.stderr)
    if asked.as_json:
        print(json.dumps({"topic": asked.topic, "sent": sent, "not_sent": left}))
    elif not sent and not left:
        print(f"no dead letters in {asked.topic} that have not been sent again", file=sys.stderr)
    return left


def _to_resend(
    batch: Sequence[Record], partition_counts: Mapping[str, int]
) -> tuple[list[Record], list[tuple[Record, str]]]:
    """Return the input records to send, and the letters that cannot be sent again, each with the reason."""
    records: list[Record] = []
    refused: list[tuple[Record, str]] = []
    for record in batch:
        letter = read_dead_letter(record)
        if letter is None:
            refused.append((record, "no dead letter: it has no __streams.errors headers"))
        elif letter.left_out is not None:
            refused.append((record, f"it is not whole: it lacks {letter.left_out}"))
        elif letter.record.partition >= partition_counts.get(letter.record.topic, 0):
            refused.append((record, f"no such partition: {letter.record.topic}-{letter.record.partition}"))
        else:
            records.append(letter.record)
    return records, refused


def _send(
    producer: TransactionalProducer, records: Sequence[Record], batch: Sequence[Record], timeout_s: float
) -> None:
    done: dict[TopicPartition, int] = {}
    for record in batch:
        done[TopicPartition(record.topic, record.partition)] = record.offset + 1
    producer.begin(timeout_s)
    for record in records:
        producer.produce(record.topic, record.partition, record.key, record.value, record.headers, record.timestamp_ms)
    producer.flush(timeout_s)
    producer.send_offsets(done, NO_MEMBER, timeout_s)
    producer.commit(timeout_s)


def _records(asked: Asked) -> Iterator[Record]:
    """Yield the records up to each partition's end at first: those that have not been sent again, or all."""
    cluster = asked.cluster
    admin = cluster.admin()
    bounds = admin.bounds(existing_partitions(admin, cluster, asked.topic), cluster.timeout_s)
    sent_to = {} if asked.sent_too else _sent_to(asked, bounds)
    starts = {at: max(start, sent_to.get(at, 0)) for at, (start, _) in bounds.items()}
    ends = {at: end for at, (_, end) in bounds.items() if starts[at] < end}
    if not ends:
        return
    reader = TopicReader(
        cluster.bootstrap_servers,
        cluster.client,
        {at: starts[at] for at in ends},
        group_id=asked.group,
        read_committed=True,
    )
    with closing(reader):
        yield from records_until_end(reader, asked.topic, ends, cluster.timeout_s, Reading())


def _sent_to(asked: Asked, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    """Return up to which offsets the letters have been sent again."""
    cluster = asked.cluster
    committed = CommittedOffsets(cluster.bootstrap_servers, cluster.client, group_id=asked.group, stable=True)
    with closing(committed):
        return committed.read(partitions, cluster.timeout_s)


def _fact(record: Record, letter: DeadLetter) -> str:
    facts: dict[str, Any] = {
        "dead_letter": {"topic": record.topic, "partition": record.partition, "offset": record.offset},
        "exception": letter.failure.exception,
        "message": letter.failure.message,
        "stacktrace": letter.failure.stacktrace,
        "left_out": letter.left_out,
        "record": as_facts(letter.record),
    }
    return json.dumps(facts)


def _line(letter: DeadLetter) -> str:
    source = letter.record
    lacks = f" (lacks {letter.left_out})" if letter.left_out else ""
    exception = readable(letter.failure.exception.encode())
    where = f"offset {source.offset}" if source.offset >= 0 else "(an output)"
    return (
        f"{source.topic}-{source.partition} {where}: {exception}{lacks}\n"
        f"    {readable(source.key)} = {readable(source.value)}"
    )


def _print_strangers(asked: Asked, strangers: int) -> None:
    if strangers:
        print(f"{strangers:,} other records in {asked.topic}: they have no __streams.errors headers", file=sys.stderr)


def _letters(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"
