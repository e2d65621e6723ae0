"""The size of a group's metadata, and what is left out before a broker refuses it.

The coordinator writes each generation as one record (``GroupMetadataValue``): every member's subscription and
assignment. Our trailer and the host maps are in each assignment and describe the whole group, so they grow with its
square. A record that is too large makes SyncGroup fail, and the group rebalances for ever without an explanation. So
our leader adds up the size. Above half of the limit a trailer names its member's own tasks only, so the trailers no
longer grow with the square. If that is not enough it warns, and leaves out first what only speeds things up (the
trailers), then what only key lookups need (the standbys' host map).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kstreams_assign.group.values import JoinedMember, MemberAssignment
from kstreams_assign.model import TopicPartition

RECORD_BYTES_MAX = 1_048_588
"""A broker's default ``message.max.bytes``."""

WARN_SHARE, FULL_SHARE = 0.5, 0.9
_CLIENT_HOST_BYTES = 40
_NUMBERS = 2 + 2 + 2 + 2 + 4 + 4 + 4 + 4
"""Lengths and timeouts of one member's entry."""


class Trim(IntEnum):
    """What is left out of every assignment."""

    NOTHING = 0
    OTHERS = 1
    """What the trailers say of other processes' tasks; the leader's own process still gets all of it."""
    TRAILERS = 2
    STANDBY_HOSTS = 3
    """The trailers and the standbys' host map."""


_LEFT_OUT = {
    Trim.TRAILERS: (
        "the trailers are left out, so members do not know warm-ups or the probing time, early probing is off, and a "
        "drain or a restart is as a plain close"
    ),
    Trim.STANDBY_HOSTS: "trailers and the standbys' host map are left out, so key lookups find active tasks only",
}

Assignments = Mapping[str, MemberAssignment]


def joined_bytes(members: Iterable[JoinedMember]) -> int:
    """Return the size of the members' entries without their assignments; unknown parts are estimated generously."""
    return sum(
        _NUMBERS
        + 2 * len(member.member_id.encode())  # the client id is the beginning of the member id
        + len((member.instance_id or "").encode())
        + _CLIENT_HOST_BYTES
        + 16
        + sum(2 + len(topic.encode()) for topic in member.topics)
        + _partitions_bytes(member.owned)
        + len(member.user_data)
        for member in members
    )


def assigned_bytes(assignments: Assignments) -> int:
    """Return the size of the assignments in the record."""
    return sum(10 + _partitions_bytes(given.partitions) + len(given.user_data) for given in assignments.values())


def _partitions_bytes(partitions: Sequence[TopicPartition]) -> int:
    topics = {partition.topic for partition in partitions}
    return 4 * len(partitions) + sum(6 + len(topic.encode()) for topic in topics)


class FittedRecord(NamedTuple):
    """The assignments, the size of the record with them, and what an operator should know."""

    assignments: Assignments
    record_bytes: int
    warnings: tuple[str, ...]


def fit_record(encode: Callable[[Trim], Assignments], joined: int, most: int) -> FittedRecord:
    """Return the assignments with as much in them as the record takes (``most`` bytes)."""
    sizes: list[int] = []
    for trim in Trim:
        assignments = encode(trim)
        sizes.append(joined + assigned_bytes(assignments))
        if sizes[-1] <= most * (FULL_SHARE if trim else WARN_SHARE):
            break
    whole = sizes[min(len(sizes) - 1, Trim.OTHERS)]
    return FittedRecord(assignments, sizes[-1], _warning(whole, sizes[-1], most, trim))


def _warning(whole: int, size: int, most: int, trim: Trim) -> tuple[str, ...]:
    if whole <= most * WARN_SHARE:
        return ()
    about = f"the group's metadata is one record of {whole:,} bytes, and the brokers take {most:,} at most"
    remedy = f"set max.message.bytes of __consumer_offsets to {_next_power_of_two(2 * whole):,} or more"
    if size > most:
        return (f"{about}: they refuse it even without trailers and standby hosts ({size:,} bytes); {remedy}",)
    left_out = _LEFT_OUT.get(trim)
    return (f"{about}: {remedy} before the group grows" if left_out is None else f"{about}: {left_out}; {remedy}",)


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
