"""A fleet of groups as the records that a broker would hold of them: lives that were played, written under many names.

A few lives are played through the real leader. Each group gets one of them, with a group id, process ids, member ids,
endpoints and times of its own; its user-data is encoded again, so no two groups have the same bytes. What lives here:
names, records, files. What must not: what happens in a group (``lives``, ``played``), bytes of user-data (``wire``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.assign.java_order import text_hash
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.dialects import APACHE
from kstreams_assign.history.lives import KINDS, Kind, Life, play
from kstreams_assign.history.played import PlayedGeneration, PlayedMember
from kstreams_assign.history.times import DAY_MS
from kstreams_assign.model import NO_PROBE_MS, HostInfo
from kstreams_assign.wire import (
    AssignmentInfo,
    ConsumerAssignment,
    ConsumerSubscription,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommit,
    OffsetCommitKey,
    StoredMember,
    encode_assignments,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_group_metadata,
    encode_offset_commit,
    encode_offsets_key,
)

OFFSETS_PARTITIONS = 50
"""Of ``__consumer_offsets``, by default."""

MESSAGE_BYTES_MAX = 1_048_588
"""``message.max.bytes`` of a default broker: a record batch with all its overhead."""

BATCH_OVERHEAD_BYTES = 61 + 21
"""Of a batch's header, and at most of the one record in it."""


class RawRecord(NamedTuple):
    """A record of ``__consumer_offsets`` without its offset."""

    time_ms: int
    partition: int
    key: bytes
    value: bytes


@dataclass(frozen=True)
class Name:
    """Under which ids a group lives. ``mask`` turns the ids of a life into others of the same length."""

    group: str
    mask: int
    later_ms: int
    partitions: int = OFFSETS_PARTITIONS

    @property
    def partition(self) -> int:
        """The partition that holds all records of the group, as the broker reckons it."""
        return (text_hash(self.group) & 0x7FFFFFFF) % self.partitions

    def process(self, process: UUID) -> UUID:
        return UUID(int=process.int ^ self.mask)

    def text(self, text: str, process: UUID) -> str:
        """``text`` with the process's own name in it."""
        return text.replace(str(process), str(self.process(process)))

    def host(self, host: HostInfo) -> HostInfo:
        """An endpoint begins with the id of its process."""
        process = UUID(host.host.partition(".")[0])
        return HostInfo(self.text(host.host, process), host.port)


def named_records(life: Life, name: Name) -> Iterator[RawRecord]:
    """The records of one group, in the order of time."""
    for position, event in enumerate(life.events):
        time_ms = event.time_ms + name.later_ms
        if isinstance(event, PlayedGeneration):
            key = encode_offsets_key(GroupMetadataKey(name.group))
            yield RawRecord(time_ms, name.partition, key, encode_group_metadata(_metadata(life, event, name)))
        else:
            key = encode_offsets_key(OffsetCommitKey(name.group, *event.partition))
            value = encode_offset_commit(OffsetCommit(4, 1_000 * position, "", time_ms))
            yield RawRecord(time_ms, name.partition, key, value)


def _metadata(life: Life, event: PlayedGeneration, name: Name) -> GroupMetadata:
    if event.leader is None:
        return GroupMetadata(4, "consumer", event.generation, current_state_timestamp_ms=event.time_ms + name.later_ms)
    answers = encode_assignments(_renamed(life, event, name))
    return GroupMetadata(
        version=4,
        protocol_type="consumer",
        generation=event.generation,
        protocol="stream",
        leader=f"{name.group}-{name.text(event.leader.member_id, event.leader.process)}",
        members=tuple(
            _member(member, answer, life, name) for member, answer in zip(event.members, answers, strict=True)
        ),
        current_state_timestamp_ms=event.time_ms + name.later_ms,
    )


def _member(member: PlayedMember, answer: bytes, life: Life, name: Name) -> StoredMember:
    process = member.thread.process
    endpoint = None if member.report.user_end_point is None else name.text(member.report.user_end_point, process)
    report = replace(member.report, process_id=name.process(process), user_end_point=endpoint)
    said = ConsumerSubscription(
        version=1 if life.kind.ours else 3,
        topics=member.joined.topics,
        user_data=APACHE.write_report(report),
        owned_partitions=member.joined.owned,
    )
    return StoredMember(
        member_id=f"{name.group}-{name.text(member.thread.member_id, process)}",
        client_id=f"{name.group}-{name.text(member.thread.client_id, process)}",
        client_host=f"/10.0.{process.int % 250}.{member.thread.number}",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        subscription=encode_consumer_subscription(said),
        assignment=encode_consumer_assignment(ConsumerAssignment(said.version, member.answer.partitions, answer)),
    )


def _renamed(life: Life, event: PlayedGeneration, name: Name) -> Iterator[AssignmentInfo]:
    """The answers under the group's own names, sharing what the answers share; a Java leader writes no trailer."""
    answers = life.answers[event.generation]
    first = answers[0]
    hosts = {name.host(host): held for host, held in first.partitions_by_host.items()}
    standby_hosts = {name.host(host): held for host, held in first.standby_partitions_by_host.items()}
    trailer = first.trailer if life.kind.ours else None
    if trailer is not None:
        trailer = replace(
            trailer,
            warmups={name.process(process): tasks for process, tasks in trailer.warmups.items()},
            owners={task: name.process(process) for task, process in trailer.owners.items()},
            next_probe_ms=None if trailer.next_probe_ms is None else trailer.next_probe_ms + name.later_ms,
        )
    for info in answers:
        due = info.next_rebalance_ms
        yield replace(
            info,
            partitions_by_host=hosts,
            standby_partitions_by_host=standby_hosts,
            trailer=trailer,
            next_rebalance_ms=due + name.later_ms if 0 < due < NO_PROBE_MS else due,
        )


@dataclass(frozen=True)
class Fleet:
    """So many groups of up to so many members, each of so many generations. The same seed gives the same bytes."""

    groups: int = 1_000
    members: int = 100
    generations: int = 10
    seed: int = 0
    partitions: int = OFFSETS_PARTITIONS
    kinds: tuple[Kind, ...] = KINDS

    @cached_property
    def lives(self) -> tuple[Life, ...]:
        """Two of each kind, as far as there are groups for them."""
        wanted = min(self.groups, 2 * len(self.kinds))
        kinds = (self.kinds[n % len(self.kinds)] for n in range(wanted))
        return tuple(play(kind, self.members, self.generations, self.seed + n) for n, kind in enumerate(kinds))

    @cached_property
    def names(self) -> tuple[Name, ...]:
        chance = Random(self.seed)  # noqa: S311 - a seed, not a secret
        return tuple(
            Name(f"fleet-{n:05d}", chance.getrandbits(128), chance.randrange(DAY_MS), self.partitions)
            for n in range(self.groups)
        )

    def records(self, partition: int) -> list[RawRecord]:
        """The records of one partition of the topic, in the order of time."""
        held = [(n, name) for n, name in enumerate(self.names) if name.partition == partition]
        records = [record for n, name in held for record in named_records(self.lives[n % len(self.lives)], name)]
        return sorted(records, key=lambda record: record.time_ms)

    def too_large(self) -> list[str]:
        """Groups that a default broker could not hold: with a generation of more than ``message.max.bytes``."""
        names = self.names[: len(self.lives)]  # other names of a life are as long
        large = [n for n, life in enumerate(self.lives) if _largest(life, names[n]) > MESSAGE_BYTES_MAX]
        return [name.group for n, name in enumerate(self.names) if n % len(self.lives) in large]


def _largest(life: Life, name: Name) -> int:
    return max(len(record.key) + len(record.value) for record in named_records(life, name)) + BATCH_OVERHEAD_BYTES


class Written(NamedTuple):
    """What ``write_fleet`` wrote. ``too_large``: the groups that a default broker could not hold."""

    groups: int
    generations: int
    commits: int
    bytes: int
    largest: int
    too_large: list[str]


def write_fleet(folder: Path, fleet: Fleet, workers: int = 1) -> Written:
    """Write the fleet's records as Parquet, a file for each partition of the topic, for ``history follow --records``.

    Columns as in ``RawRecords``. ``workers`` are processes. Raises ``ConfigError`` for a folder that cannot be made, or
    that has Parquet files: ``history follow`` reads all of them, and two fleets use the same offsets.
    """
    _make_folder(folder)
    large, shares = fleet.too_large(), [range(n, fleet.partitions, workers) for n in range(workers)]
    if workers == 1:
        written = [_write_partitions(folder, fleet, shares[0])]
    else:
        with ProcessPoolExecutor(workers) as pool:
            written = list(pool.map(partial(_write_partitions, folder, fleet), shares))
    generations, commits, size, largest = zip(*written, strict=True)
    return Written(fleet.groups, sum(generations), sum(commits), sum(size), max(largest), large)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        problem = f"{cause.strerror or cause}; name a folder that can be written"
        raise ConfigError(f"--records {folder.absolute()}: {problem}") from cause
    if any(folder.glob("*.parquet")):
        raise ConfigError(f"--records {folder.absolute()}: has Parquet files; name a new folder, or delete those files")


def _write_partitions(folder: Path, fleet: Fleet, partitions: Iterable[int]) -> tuple[int, int, int, int]:
    generations = commits = size = largest = 0
    for partition in partitions:
        records = fleet.records(partition)
        if records:
            _write_file(folder / f"partition-{partition:05d}.parquet", records)
        sizes = [len(record.key) + len(record.value) for record in records]
        completed = sum(record.key.startswith(METADATA_KEY) for record in records)
        generations, commits = generations + completed, commits + len(records) - completed
        size, largest = size + sum(sizes), max(largest, *sizes, 0)
    return generations, commits, size, largest


METADATA_KEY = b"\0\2"
"""How the key of a group's metadata begins."""


def _write_file(path: Path, records: Sequence[RawRecord]) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    columns = {
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array(range(len(records)), pa.int64()),
        "timestamp_ms": pa.array([record.time_ms for record in records], pa.int64()),
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
    }
    pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=1_000)
