"""Read the broker's topics after a run, with a plain consumer, as facts."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

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
    """Yield every committed record of a topic, each partition in order. Raises ``Unreadable``.

    The broker's end offsets count: the last records may be a transaction's markers, which consumers never get.
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
    """Return the next offset of each partition."""
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
    """Return the coordinator's records of the group: committed offsets of ``topic``, and completed generations."""
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


def _generation(metadata: GroupMetadata) -> Generation:
    active, warmups = {}, {}
    for member in metadata.members:
        given = decode_consumer_assignment(member.assignment) if member.assignment else None
        if given is None:
            continue
        active[member.member_id] = tuple(partition.partition for partition in given.assigned_partitions)
        trailer = decode_assignment(given.user_data).trailer if given.user_data else None
        if trailer is not None:
            warmups = {str(process): tuple(map(str, tasks)) for process, tasks in trailer.warmups.items() if tasks}
    return Generation(metadata.generation, active, warmups)


def aborted_transactions(broker: str) -> int:
    """Count them in the transaction coordinator's log; 0 if there is no such log."""
    consumer = _consumer(broker)
    try:
        if "__transaction_state" not in consumer.list_topics(timeout=ANSWER_S).topics:
            return 0
    finally:
        consumer.close()
    logged = [m.value() for m in records(broker, "__transaction_state") if m.value() is not None]
    return sum(_TRANSACTION_STATUS.unpack_from(value)[-1] == COMPLETE_ABORT for value in logged)


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the group: why it is not at rest, and its generation (of a streams group the epoch) if known."""

    reasons: tuple[str, ...]
    generation: int | None = None


def look(broker: str, group: str, topic: str, members: int) -> Look:
    """Check the group's committed offsets, then ``inspect``."""
    behind = _behind(broker, group, topic)
    return Look(behind) if behind else _inspected(broker, group, members)


def _behind(broker: str, group: str, topic: str) -> tuple[str, ...]:
    consumer = _consumer(broker, group)
    try:
        until = _ends(consumer, topic)
        parts = [TopicPartition(topic, number) for number in until]
        done = {
            committed_offset.partition: max(0, committed_offset.offset)
            for committed_offset in consumer.committed(parts, ANSWER_S)
        }
    except KafkaException as cause:
        return (f"the broker does not answer: {cause}",)
    finally:
        consumer.close()
    return tuple(f"partition {n}: committed {done[n]} of {end}" for n, end in until.items() if done[n] != end)


def _inspected(broker: str, group: str, members: int) -> Look:
    """Run ``inspect``.

    A group with only a useless warm-up is at rest: Java's assignor keeps it until the next probe.
    """
    command = [sys.executable, "-m", "kstreams_assign", "inspect", group, "-b", broker, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return Look((f"inspect: {done.stderr.strip()[-300:]}",))
    facts = json.loads(done.stdout)
    return _streams_look(facts, members) if facts["protocol"] == "streams" else _classic_look(facts, members)


def _streams_look(facts: Mapping[str, Any], members: int) -> Look:
    there = [member for process in facts["processes"] for member in process["members"]]
    moving = [
        f"{member['member_id']}: {tasks}"
        for member in there
        for tasks in (member["to_revoke"], member["awaited"])
        if any(tasks.values())
    ]
    wrong = {
        f"the group is {facts['state']}": facts["state"] != "Stable",
        f"{len(there)} members, {members} live": len(there) != members,
        f"tasks are about to move: {moving}": bool(moving),
    }
    return Look(tuple(text for text, holds in wrong.items() if holds), facts["group_epoch"])


def _classic_look(facts: Mapping[str, Any], members: int) -> Look:
    wrong = {
        f"the group is {facts['state']}": facts["state"] != "Stable",
        f"{len(facts['processes'])} processes, {members} live": len(facts["processes"]) != members,
        f"not balanced: {'; '.join(facts['why'])[:500]}": not facts["balanced"],
        f"tasks are about to move: {facts['next_moves']}": bool(facts["next_moves"]),
    }
    return Look(tuple(text for text, holds in wrong.items() if holds), facts["generation"])
