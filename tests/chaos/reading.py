"""Reads what a run left in the broker, with a plain consumer, and makes facts of it."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstreams_assign.wire import (
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    decode_assignment,
    decode_consumer_assignment,
    decode_group_metadata,
    decode_offset_commit,
    decode_offsets_key,
)
from tests.chaos.facts import Commit, Generation, Write
from tests.chaos.rows import Row, read_id, read_row

ANSWER_S = 10.0
READ_S = 60.0
COMPLETE_ABORT = 5
_TRANSACTION_STATUS = struct.Struct(">hqhib")
"""version, producer id, epoch, timeout, status: the fields that ``TransactionLogValue`` begins with in all versions."""


class Unreadable(RuntimeError):
    """A topic could not be read to its end."""


def _consumer(broker: str, group: str = "chaos-reader", *, committed: bool = True) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )


def records(broker: str, topic: str) -> Iterator[Message]:
    """Every committed record of a topic, each partition in its order. Raises ``Unreadable``.

    Its end is where the broker says that it is: the last records may be a transaction's markers, which no consumer is given.
    """
    consumer = _consumer(broker)
    try:
        known = consumer.list_topics(topic, ANSWER_S).topics[topic].partitions
        ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number), ANSWER_S)[1] for number in known}
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        yield from _to_the_ends(consumer, topic, ends)
    except KafkaException as cause:
        raise Unreadable(f"{topic}: {cause}") from cause
    finally:
        consumer.close()


def ends(broker: str, topic: str) -> dict[int, int]:
    """The next offset of each partition."""
    consumer = _consumer(broker)
    try:
        return _ends(consumer, topic)
    finally:
        consumer.close()


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    known = consumer.list_topics(topic, ANSWER_S).topics[topic].partitions
    return {number: consumer.get_watermark_offsets(TopicPartition(topic, number), ANSWER_S)[1] for number in known}


def _to_the_ends(consumer: Consumer, topic: str, until: dict[int, int]) -> Iterator[Message]:
    waiting, deadline = dict(until), monotonic() + READ_S
    while waiting:
        if monotonic() > deadline:
            raise Unreadable(f"{topic}: not read to {waiting} in {READ_S:.0f} s; is a transaction open?")
        for message in consumer.consume(1_000, 0.1):
            error = message.error()
            if error is None:
                yield message
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif message.offset() >= until[message.partition()]:
                waiting.pop(message.partition(), None)


def inputs(broker: str, topic: str) -> tuple[int, ...]:
    return tuple(read_id(message.value()) for message in records(broker, topic))


def writes(broker: str, topic: str) -> tuple[Write, ...]:
    return tuple(Write(m.partition(), m.offset(), m.key(), m.value()) for m in records(broker, topic))


def rows(broker: str, topic: str) -> tuple[Row, ...]:
    return tuple(read_row(message.value()) for message in records(broker, topic))


def group_records(broker: str, group: str, topic: str) -> tuple[tuple[Commit, ...], tuple[Generation, ...]]:
    """What the coordinator wrote of the group: committed offsets of ``topic``, and completed generations."""
    commits: list[Commit] = []
    generations: list[Generation] = []
    for message in records(broker, "__consumer_offsets"):
        key = decode_offsets_key(message.key())
        if message.value() is None:
            continue
        if isinstance(key, OffsetCommitKey) and (key.group, key.topic) == (group, topic):
            commits.append(Commit(key.partition, decode_offset_commit(message.value()).offset))
        elif isinstance(key, GroupMetadataKey) and key.group == group:
            generations.append(_generation(decode_group_metadata(message.value())))
    return tuple(commits), tuple(generations)


def _generation(told: GroupMetadata) -> Generation:
    active, warmups = {}, {}
    for member in told.members:
        given = decode_consumer_assignment(member.assignment) if member.assignment else None
        if given is None:
            continue
        active[member.member_id] = tuple(partition.partition for partition in given.assigned_partitions)
        trailer = decode_assignment(given.user_data).trailer if given.user_data else None
        if trailer is not None:
            warmups = {str(process): tuple(map(str, tasks)) for process, tasks in trailer.warmups.items() if tasks}
    return Generation(told.generation, active, warmups)


def aborted_transactions(broker: str) -> int:
    """By the transaction coordinator's own log; 0 where nobody ever used one."""
    consumer = _consumer(broker)
    try:
        if "__transaction_state" not in consumer.list_topics(timeout=ANSWER_S).topics:
            return 0
    finally:
        consumer.close()
    told = [m.value() for m in records(broker, "__transaction_state") if m.value() is not None]
    return sum(_TRANSACTION_STATUS.unpack_from(value)[-1] == COMPLETE_ABORT for value in told)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the group: why it is not at rest, and its generation if that could be had."""

    reasons: tuple[str, ...]
    generation: int | None = None


def look(broker: str, group: str, topic: str, members: int) -> Look:
    """At its committed offsets, then through ``inspect``."""
    behind = _behind(broker, group, topic)
    return Look(behind) if behind else _inspected(broker, group, members)


def _behind(broker: str, group: str, topic: str) -> tuple[str, ...]:
    consumer = _consumer(broker, group)
    try:
        until = _ends(consumer, topic)
        parts = [TopicPartition(topic, number) for number in until]
        done = {one.partition: max(0, one.offset) for one in consumer.committed(parts, ANSWER_S)}
    except KafkaException as cause:
        return (f"the broker does not tell: {cause}",)
    finally:
        consumer.close()
    return tuple(f"partition {n}: committed {done[n]} of {end}" for n, end in until.items() if done[n] != end)


def _inspected(broker: str, group: str, members: int) -> Look:
    """A warm-up that nobody will work on is at rest, too: Java's assignor leaves one until the probing interval ends."""
    command = [sys.executable, "-m", "kstreams_assign", "inspect", group, "-b", broker, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return Look((f"inspect: {done.stderr.strip()[-300:]}",))
    told = json.loads(done.stdout)
    wrong = {
        f"the group is {told['state']}": told["state"] != "Stable",
        f"{len(told['processes'])} processes, {members} live": len(told["processes"]) != members,
        f"not balanced: {'; '.join(told['why'])[:500]}": not told["balanced"],
        f"tasks are about to move: {told['next_moves']}": bool(told["next_moves"]),
    }
    return Look(tuple(text for text, holds in wrong.items() if holds), told["generation"])
