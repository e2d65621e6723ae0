"""``kstreams-assign dead-letters``, the work: list the dead letters of an application, and send them again.

Sending again is a transaction for each few hundred letters: the records go back to their input partitions, and the
offsets up to which this is done are committed in a group of its own. So a letter is sent again once, also when the
command is interrupted or called twice. Brokers delete the offsets of a group without members after a while. Then
nothing says which old letters were sent, so the command refuses to send them. What must not live here: what a dead
letter is (``tasks.dead_letters``).
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from kstreams_assign.adapters.confluent import CommittedOffsets, TopicReader, TransactionalProducer
from kstreams_assign.adapters.confluent.group_rights import refuse_hidden_group
from kstreams_assign.errors import ConfigError, DeliveryFailed, RecordRefused
from kstreams_assign.group.values import MemberId
from kstreams_assign.insight.record_text import as_facts, printable, readable
from kstreams_assign.insight.topics import Cluster, Reading, existing_partitions, records_until_end
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.dead_letters import DeadLetter, read_dead_letter
from kstreams_assign.tasks.record import Record

BATCH = 500
OFFSETS_RETENTION_MS = 7 * 24 * 60 * 60 * 1000
"""Kafka's default of ``offsets.retention.minutes``, counted from the commit for a group without members."""
ATTEMPTS = 4
"""Of a transaction. After a refused record librdkafka 2.16 loses the partition's next records, and then starts over."""
NO_MEMBER = MemberId(-1, "", None)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to do. ``sent_too``: list also the letters that have been sent again.

    ``from_beginning``: send all letters of a partition without a committed offset, however old they are.
    """

    cluster: Cluster
    application_id: str
    topic: str
    sent_too: bool = False
    from_beginning: bool = False
    as_json: bool = False

    @property
    def group(self) -> str:
        """Return the group whose committed offsets say which letters have been sent again."""
        return f"{self.application_id}-dead-letters"


def list_letters(asked: Asked) -> None:
    """Print each dead letter. Raises ``TopicNotFound``, ``BrokerUnavailable``, ``BrokerError``."""
    causes: Counter[str] = Counter()
    strangers = 0
    bounds = _bounds(asked)
    sent_to = {} if asked.sent_too else _sent_to(asked, bounds)
    first_times_ms: dict[TopicPartition, int] = {}
    for record in _records(asked, bounds, sent_to):
        first_times_ms.setdefault(TopicPartition(record.topic, record.partition), record.timestamp_ms)
        letter = read_dead_letter(record)
        if letter is None:
            strangers += 1
            continue
        causes[letter.failure.kind] += 1
        print(_fact(record, letter) if asked.as_json else _line(letter))
    for cause, count in causes.most_common():
        print(f"{count:,} of {printable(cause)}", file=sys.stderr)
    _print_strangers(asked, strangers)
    if not asked.sent_too:
        unknown = {at: time_ms for at, time_ms in first_times_ms.items() if at not in sent_to}
        retention_ms = _offsets_retention_ms(asked.cluster) if unknown else OFFSETS_RETENTION_MS
        for at in sorted(_older_than(retention_ms, unknown)):
            print(
                f"{at}: not known which letters have been sent again: group {asked.group} has no committed offset "
                f"here, and brokers delete such an offset after {_days(retention_ms)}",
                file=sys.stderr,
            )
    print(f"{_letters(causes.total())} in {asked.topic}", file=sys.stderr)


def resend(asked: Asked) -> int:
    """Send the letters again that have not been; return how many could not be.

    Raises as ``list_letters``, and ``ConfigError`` if it is not known which letters have been sent.
    """
    cluster = asked.cluster
    sent = left = 0
    producer = TransactionalProducer(
        cluster.bootstrap_servers, cluster.client, group_id=asked.group, transactional_id=asked.group
    )
    with closing(producer):
        producer.prepare(cluster.timeout_s)  # an interrupted call may have left a transaction open
        counts = cluster.admin().topics(cluster.timeout_s)
        bounds = _bounds(asked)
        sent_to = _sent_to(asked, bounds)
        if not asked.from_beginning:
            _refuse_unknown(asked, {at: offsets for at, offsets in bounds.items() if at not in sent_to})
        if known := {at: offset for at, offset in sent_to.items() if at in bounds}:
            _send(producer, [], known, cluster.timeout_s)  # or brokers delete it where no new letters come
        letters = _records(asked, bounds, sent_to)
        while batch := list(islice(letters, BATCH)):
            for sent_now, refused in _send_accepted(producer, batch, counts, cluster.timeout_s):
                sent, left = sent + sent_now, left + len(refused)
                for letter, why in refused:
                    where = f"{letter.topic}-{letter.partition} offset {letter.offset}"
                    print(printable(f"{where}: not sent again: {why}"), file=sys.stderr)
            print(f"{_letters(sent)} sent again", file=sys.stderr)
    if asked.as_json:
        print(json.dumps({"topic": asked.topic, "sent": sent, "not_sent": left}))
    elif not sent and not left:
        print(f"no dead letters in {asked.topic} that have not been sent again", file=sys.stderr)
    return left


def _send_accepted(
    producer: TransactionalProducer, batch: Sequence[Record], partition_counts: Mapping[str, int], timeout_s: float
) -> Iterator[tuple[int, list[tuple[Record, str]]]]:
    """Send what the brokers accept; yield for each transaction how many were sent, and the letters that were not.

    One refused record fails its whole transaction, and the client cannot always name that record. So the batch is
    halved until the record is alone. That takes at most three transactions a letter, without retries.
    """
    records, refused = _to_resend(batch, partition_counts)
    try:
        _send_with_retries(producer, records, batch, timeout_s)
    except RecordRefused as cause:
        if cause.absent or cause.forbidden:  # hits other records of the topic too, and an administrator can mend it
            raise
        if len(batch) > 1:
            middle = len(batch) // 2
            yield from _send_accepted(producer, batch[:middle], partition_counts, timeout_s)
            yield from _send_accepted(producer, batch[middle:], partition_counts, timeout_s)
            return
        if not (cause.too_large or cause.invalid):  # not the record's fault, for example a missing cluster right
            raise
        _send_with_retries(producer, [], batch, timeout_s)
        records, refused = [], [(batch[0], str(cause))]
    yield len(records), refused


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


def _send_with_retries(
    producer: TransactionalProducer, records: Sequence[Record], batch: Sequence[Record], timeout_s: float
) -> None:
    """Send in one transaction; abort and repeat it if the client loses records. Raises ``DeliveryFailed``, aborted."""
    done = {TopicPartition(letter.topic, letter.partition): letter.offset + 1 for letter in batch}
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _send(producer, records, done, timeout_s)
        except DeliveryFailed as cause:
            producer.abort(timeout_s)
            if isinstance(cause, RecordRefused) or attempt == ATTEMPTS:
                raise
        else:
            return


def _send(
    producer: TransactionalProducer, records: Sequence[Record], done: Mapping[TopicPartition, int], timeout_s: float
) -> None:
    """Send the records, and commit up to where this is done, in one transaction."""
    producer.begin(timeout_s)
    for record in records:
        producer.produce(record.topic, record.partition, record.key, record.value, record.headers, record.timestamp_ms)
    producer.flush(timeout_s)
    producer.send_offsets(done, NO_MEMBER, timeout_s)
    producer.commit(timeout_s)


def _bounds(asked: Asked) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first and the end offset of each partition with dead letters.

    Raises ``TopicNotFound``, and ``BrokerError`` if this client may not describe the group.
    """
    cluster = asked.cluster
    admin = cluster.admin()
    bounds = admin.bounds(existing_partitions(admin, cluster, asked.topic), cluster.timeout_s)
    refuse_hidden_group(cluster.bootstrap_servers, cluster.client, asked.group)
    return {at: (start, end) for at, (start, end) in bounds.items() if start < end}


def _records(
    asked: Asked, bounds: Mapping[TopicPartition, tuple[int, int]], sent_to: Mapping[TopicPartition, int]
) -> Iterator[Record]:
    """Yield the records within ``bounds`` that have not been sent again."""
    cluster = asked.cluster
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


def _refuse_unknown(asked: Asked, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Raise ``ConfigError`` if letters of these partitions, which have no committed offset, may have been sent."""
    first_times_ms: dict[TopicPartition, int] = {}
    for record in _records(asked, bounds, {}):
        first_times_ms.setdefault(TopicPartition(record.topic, record.partition), record.timestamp_ms)
        if len(first_times_ms) == len(bounds):
            break
    if not first_times_ms:
        return
    retention_ms = _offsets_retention_ms(asked.cluster)
    old = _older_than(retention_ms, first_times_ms)
    if not old:
        return
    listed = ", ".join(f"{at} (first letter of {_utc(time_ms)})" for at, time_ms in sorted(old.items()))
    raise ConfigError(
        f"--resend: not known which letters have been sent again: group {asked.group} has no committed offset for "
        f"{listed}, and brokers delete such an offset after {_days(retention_ms)}; nothing was sent; add "
        "--from-beginning if no letter of these partitions was ever sent again, or to send all of them again"
    )


def _offsets_retention_ms(cluster: Cluster) -> int:
    """Return the shortest ``offsets.retention.minutes`` of the brokers, Kafka's default if it may not be read."""
    minutes = cluster.admin().broker_settings("offsets.retention.minutes", cluster.timeout_s)
    return min((int(number) * 60_000 for number in minutes), default=OFFSETS_RETENTION_MS)


def _older_than(retention_ms: int, first_times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the partitions whose first letter is so old that the committed offset behind it may have expired."""
    kept_since_ms = time.time() * 1000 - retention_ms
    return {at: time_ms for at, time_ms in first_times_ms.items() if time_ms < kept_since_ms}


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _days(span_ms: int) -> str:
    minutes = span_ms / 60_000
    span = f"{minutes / 1440:g} days" if minutes >= 1440 else f"{minutes:g} minutes"
    return f"{span} (offsets.retention.minutes)"


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
    where = f"offset {source.offset}" if source.offset >= 0 else "(an output)"
    head = printable(f"{source.topic}-{source.partition} {where}: {letter.failure.text}{lacks}")
    return f"{head}\n    {readable(source.key)} = {readable(source.value)}"


def _print_strangers(asked: Asked, strangers: int) -> None:
    if strangers:
        print(f"{strangers:,} other records in {asked.topic}: they have no __streams.errors headers", file=sys.stderr)


def _letters(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"
