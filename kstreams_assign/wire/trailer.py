"""Trailers: what Python members append after the last field, which Java does not read.

Both trailers, their envelope, and the only use of msgpack in this room. No decisions.

The bytes are ``KSA`` and format 1, the length of what follows the checksum (uint32), its CRC-32 (uint32), then one
msgpack map with text keys. Readers ignore unknown keys, so later versions only add keys. Tasks are written as runs,
``[subtopology, [partitions], ...]``, which keep their order; a named topology makes the run's key the text
``NAME__SUBTOPOLOGY``. A trailer never makes a message unreadable: a damaged trailer is ignored, with a warning.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeVar
from uuid import UUID

import msgpack  # type: ignore[import-untyped]

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import INT32_DIGITS_MAX, TaskId
from kstreams_assign.wire.primitives import process_id

MAGIC = b"KSA\x01"
ENVELOPE = struct.Struct(">4sII")
TRAILER_SIZE_MAX = 1 << 20
"""A group's whole metadata is one record of 1 MB by default, so no valid trailer is larger."""

BY_NUMBER = "tasks"
"""The value of ``balance_by`` that is not written: that of a member that does not report it."""

TRAILERS_CACHED_MAX, CACHED_SIZE_MAX = 64, 4096
"""This many recently written or read trailers are cached; those that were read only up to this size."""


@dataclass(frozen=True, slots=True)
class AwaitedProcess:
    """A process that restarts, as it was when it announced that: its threads, tags and rack, and its tasks.

    ``left_ms`` is a duration, because clocks of machines differ: how much longer its tasks may wait for it.
    """

    left_ms: int
    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()
    threads: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class MemberTrailer:
    """What a Python member supports: its assignors with their versions, and a digest of its settings.

    ``draining``: it is about to leave, and wants its tasks warmed up elsewhere first. ``join`` changes with every
    join, where the version has no field for that: the broker ignores a rejoin with the same bytes. ``partitions``: the
    number of partitions of the source topics, if this member knows of more than the leader did (else 0).
    ``exactly_once``: its commits are transactions. ``restarting``: it is about to leave, and will be back soon.
    ``awaited``: the processes that are awaited by its last assignment; None if it has none, or is of a release that
    does not know of them. ``generation``: that assignment's; None if it has none, or is of a release that does not
    report it. ``balance_by``: its setting, as earlier releases have it if they do not report it. ``loads``:
    the load of each task that it runs or waits for, in the unit of that setting, as far as known.
    """

    assignors: Mapping[str, int] = field(default_factory=dict, hash=False)
    settings_digest: str = ""
    draining: bool = False
    join: int | None = None
    partitions: int = 0
    exactly_once: bool = False
    restarting: bool = False
    awaited: Mapping[UUID, AwaitedProcess] | None = field(default=None, hash=False)
    generation: int | None = None
    balance_by: str = BY_NUMBER
    loads: Mapping[TaskId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class GroupTrailer:
    """What a Python leader decided, besides the tasks.

    ``warmups``: the standbys of each process that only catch up, in the order in which they should. ``at_once``: how
    many of those a process restores at a time, if limited (the warm-up queue). ``next_probe_ms``: the wall-clock time
    of the next probing rebalance, ``None`` if there is none. ``followup``: another rebalance comes at once, which gives
    out withheld tasks (KIP-429), or those of a process that leaves for a restart. ``withheld``: active tasks that no
    member gets before that. ``owners``: the decided process of each active task. ``draining``: processes that are about
    to leave and keep only tasks without a caught-up replica elsewhere. ``partitions``: the number of partitions of all
    source topics, ``None`` if unknown. ``awaited``: processes that restart. ``loads``: those by which tasks were
    balanced, if they were: a new owner knows the load of its task before it can measure it.
    """

    assignor: str
    assignor_version: int
    warmups: Mapping[UUID, tuple[TaskId, ...]] = field(default_factory=dict)
    next_probe_ms: int | None = None
    followup: bool = False
    withheld: tuple[TaskId, ...] = ()
    owners: Mapping[TaskId, UUID] = field(default_factory=dict)
    at_once: Mapping[UUID, int] = field(default_factory=dict)
    draining: tuple[UUID, ...] = ()
    partitions: int | None = None
    awaited: Mapping[UUID, AwaitedProcess] = field(default_factory=dict)
    loads: Mapping[TaskId, int] = field(default_factory=dict)


def whole_trailer(trailers: Iterable[GroupTrailer]) -> GroupTrailer | None:
    """Merge the trailers of one generation's assignments; in a large group each names its member's own tasks only."""
    distinct: list[GroupTrailer] = []
    for trailer in trailers:
        if not distinct or trailer != distinct[-1]:
            distinct.append(trailer)
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    return replace(
        distinct[0],
        warmups=dict(sorted(item for each in distinct for item in each.warmups.items())),
        at_once={process: number for each in distinct for process, number in each.at_once.items()},
        withheld=tuple(sorted({task for each in distinct for task in each.withheld})),
        owners=dict(sorted({task: owner for each in distinct for task, owner in each.owners.items()}.items())),
        loads=dict(sorted({task: load for each in distinct for task, load in each.loads.items()}.items())),
    )


Trailer = TypeVar("Trailer")


def trailer_bytes(trailer: MemberTrailer | GroupTrailer | None) -> bytes:
    """Encode what to append to the message; empty for ``None``."""
    if trailer is None:
        return b""
    if isinstance(trailer, GroupTrailer):
        return _enveloped(_group_map(trailer))
    return _member_bytes(trailer)


@lru_cache(maxsize=TRAILERS_CACHED_MAX)
def _member_bytes(trailer: MemberTrailer) -> bytes:
    """Encode a member's trailer; it is the same at most of its joins."""
    return _enveloped(_member_map(trailer))


def _enveloped(content: Mapping[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(content)
    return ENVELOPE.pack(MAGIC, len(packed), zlib.crc32(packed)) + packed


def read_member_trailer(rest: bytes) -> tuple[MemberTrailer | None, str | None]:
    """Read the trailer after a subscription, or a warning why there is none; both are ``None`` without bytes."""
    return _known(rest, _member_trailer) if len(rest) <= CACHED_SIZE_MAX else _read(rest, _member_trailer)


def read_group_trailer(rest: bytes) -> tuple[GroupTrailer | None, str | None]:
    """Read the trailer after an assignment, or a warning why there is none; both are ``None`` without bytes."""
    return _known(rest, _group_trailer) if len(rest) <= CACHED_SIZE_MAX else _read(rest, _group_trailer)


def _read(rest: bytes, build: Callable[[Mapping[str, Any]], Trailer]) -> tuple[Trailer | None, str | None]:
    if not rest:
        return None, None
    try:
        return build(_opened(rest)), None
    except _InvalidTrailer as damage:
        return None, f"the {len(rest)} bytes after the last field are not a valid trailer: {damage}"


_known = lru_cache(maxsize=TRAILERS_CACHED_MAX)(_read)
"""Cached reading: the members of a group mostly send and receive the same trailers."""


class _InvalidTrailer(Exception):
    """Why these bytes are not a trailer. Never leaves this module."""


def _opened(rest: bytes) -> Mapping[str, Any]:
    if len(rest) < ENVELOPE.size or not rest.startswith(MAGIC):
        raise _InvalidTrailer("they do not begin with its marker")
    _, size, checksum = ENVELOPE.unpack_from(rest)
    packed = rest[ENVELOPE.size : ENVELOPE.size + size]
    if size > TRAILER_SIZE_MAX or len(packed) < size:
        raise _InvalidTrailer(f"it announces {size} bytes and has {len(packed)}")
    if zlib.crc32(packed) != checksum:
        raise _InvalidTrailer("the checksum is wrong")
    try:
        content = msgpack.unpackb(packed, strict_map_key=False, use_list=False)
    except (ValueError, TypeError) as wrong:
        raise _InvalidTrailer(f"invalid msgpack ({wrong})") from None
    opened: Mapping[str, Any] = _typed(content, dict, "the content")
    return opened


def _member_map(trailer: MemberTrailer) -> dict[str, Any]:
    content: dict[str, Any] = {"assignors": dict(trailer.assignors), "settings": trailer.settings_digest}
    if trailer.draining:
        content["draining"] = True
    if trailer.join is not None:
        content["join"] = trailer.join
    if trailer.partitions:
        content["partitions"] = trailer.partitions
    if trailer.exactly_once:
        content["exactly_once"] = True
    if trailer.restarting:
        content["restarting"] = True
    if trailer.awaited is not None:
        content["awaited"] = _awaited_map(trailer.awaited)
    if trailer.generation is not None:
        content["generation"] = trailer.generation
    if trailer.balance_by != BY_NUMBER:
        content["balance_by"] = trailer.balance_by
    if trailer.loads:
        content["loads"] = _loads_list(trailer.loads)
    return content


def _member_trailer(content: Mapping[str, Any]) -> MemberTrailer:
    assignors = _typed(content.get("assignors"), dict, "assignors")
    for name, version in assignors.items():
        _typed(name, str, "assignors")
        _typed(version, int, "assignors")
    return MemberTrailer(
        assignors=assignors,
        settings_digest=_typed(content.get("settings"), str, "settings"),
        draining=_typed(content.get("draining", False), bool, "draining"),
        join=_typed(content["join"], int, "join") if "join" in content else None,
        partitions=_typed(content.get("partitions", 0), int, "partitions"),
        exactly_once=_typed(content.get("exactly_once", False), bool, "exactly_once"),
        restarting=_typed(content.get("restarting", False), bool, "restarting"),
        awaited=_awaited(content["awaited"]) if "awaited" in content else None,
        generation=_typed(content["generation"], int, "generation") if "generation" in content else None,
        balance_by=_typed(content.get("balance_by", BY_NUMBER), str, "balance_by"),
        loads=_loads(content.get("loads")),
    )


def _group_map(trailer: GroupTrailer) -> dict[str, Any]:
    by_owner: dict[UUID, list[TaskId]] = {}
    for task, owner in sorted(trailer.owners.items(), key=_by_subtopology):
        by_owner.setdefault(owner, []).append(task)
    content = {
        "assignor": trailer.assignor,
        "version": trailer.assignor_version,
        "warmups": {process.bytes: _runs(tasks) for process, tasks in trailer.warmups.items()},
        "probe": trailer.next_probe_ms,
        "followup": trailer.followup,
        "withheld": _runs(trailer.withheld),
        "owners": {process.bytes: _runs(tasks) for process, tasks in by_owner.items()},
    }
    if trailer.at_once:
        content["at_once"] = {process.bytes: number for process, number in trailer.at_once.items()}
    if trailer.draining:
        content["draining"] = [process.bytes for process in trailer.draining]
    if trailer.partitions is not None:
        content["partitions"] = trailer.partitions
    if trailer.awaited:
        content["awaited"] = _awaited_map(trailer.awaited)
    if trailer.loads:
        content["loads"] = _loads_list(trailer.loads)
    return content


def _group_trailer(content: Mapping[str, Any]) -> GroupTrailer:
    probe = content.get("probe")
    return GroupTrailer(
        assignor=_typed(content.get("assignor"), str, "assignor"),
        assignor_version=_typed(content.get("version"), int, "version"),
        warmups=_by_process(content, "warmups"),
        next_probe_ms=None if probe is None else _typed(probe, int, "probe"),
        followup=_typed(content.get("followup"), bool, "followup"),
        withheld=_tasks(content.get("withheld"), "withheld"),
        owners={task: process for process, tasks in _by_process(content, "owners").items() for task in tasks},
        at_once={
            _process(raw, "at_once"): _typed(number, int, "at_once")
            for raw, number in _typed(content.get("at_once", {}), dict, "at_once").items()
        },
        draining=tuple(_process(raw, "draining") for raw in _typed(content.get("draining", ()), tuple, "draining")),
        partitions=_typed(content["partitions"], int, "partitions") if "partitions" in content else None,
        awaited=_awaited(content.get("awaited", {})),
        loads=_loads(content.get("loads")),
    )


def _loads_list(loads: Mapping[TaskId, int]) -> list[Any]:
    """Encode the runs of the tasks, then the load of each in their order."""
    tasks = sorted(loads, key=_in_order)
    return [_runs(tasks), [loads[task] for task in tasks]]


def _loads(content: object) -> dict[TaskId, int]:
    if content is None:
        return {}
    parts = _typed(content, tuple, "loads")
    if len(parts) != 2:
        raise _InvalidTrailer(f"loads has {len(parts)} parts instead of 2")
    tasks, loads = _tasks(parts[0], "loads"), _typed(parts[1], tuple, "loads")
    if len(tasks) != len(loads):
        raise _InvalidTrailer(f"loads has {len(loads)} numbers for {len(tasks)} tasks")
    if any(_typed(load, int, "loads") < 0 for load in loads):
        raise _InvalidTrailer("a load is negative")
    return dict(zip(tasks, loads, strict=True))


def _awaited_map(awaited: Mapping[UUID, AwaitedProcess]) -> dict[bytes, dict[str, Any]]:
    return {
        process.bytes: {
            "left": each.left_ms,
            "active": _runs(each.active),
            "standby": _runs(each.standby),
            "threads": each.threads,
            "tags": dict(each.tags),
            "rack": each.rack,
        }
        for process, each in awaited.items()
    }


def _awaited(content: object) -> dict[UUID, AwaitedProcess]:
    return {
        _process(raw, "awaited"): _awaited_process(_typed(each, dict, "awaited"))
        for raw, each in _typed(content, dict, "awaited").items()
    }


def _awaited_process(content: Mapping[str, Any]) -> AwaitedProcess:
    threads, rack = _typed(content.get("threads"), int, "threads"), content.get("rack")
    if threads < 1:
        raise _InvalidTrailer(f"threads is {threads}")
    tags = _typed(content.get("tags"), dict, "tags")
    for text in (*tags, *tags.values(), *(() if rack is None else (rack,))):
        _typed(text, str, "awaited")
    return AwaitedProcess(
        left_ms=_typed(content.get("left"), int, "left"),
        active=_tasks(content.get("active"), "active"),
        standby=_tasks(content.get("standby"), "standby"),
        threads=threads,
        tags=tags,
        rack=rack,
    )


def _by_process(content: Mapping[str, Any], key: str) -> dict[UUID, tuple[TaskId, ...]]:
    runs_of = _typed(content.get(key), dict, key)
    return {_process(raw, key): _tasks(runs, key) for raw, runs in runs_of.items()}


def _process(raw: object, key: str) -> UUID:
    if not isinstance(raw, bytes) or len(raw) != 16:
        raise _InvalidTrailer(f"{key} contains an invalid process id")
    return process_id(raw)


def _by_subtopology(owned: tuple[TaskId, UUID]) -> tuple[str, int, int]:
    return _in_order(owned[0])


def _in_order(task: TaskId) -> tuple[str, int, int]:
    return task.topology or "", task.subtopology, task.partition


def _runs(tasks: Iterable[TaskId]) -> list[Any]:
    """Encode neighbours of one subtopology under one key: ``[0, [1, 2], "topology__1", [0]]``."""
    runs: list[Any] = []
    for (subtopology, topology), run in groupby(tasks, lambda task: (task.subtopology, task.topology)):
        runs.append(subtopology if topology is None else f"{topology}__{subtopology}")
        runs.append([task.partition for task in run])
    return runs


def _tasks(runs: object, key: str) -> tuple[TaskId, ...]:
    flat = _typed(runs, tuple, key)
    if len(flat) % 2:
        raise _InvalidTrailer(f"{key} has a run without partitions")
    tasks: list[TaskId] = []
    for run, partitions in zip(flat[::2], flat[1::2], strict=True):
        subtopology, topology = _run_key(run, key)
        tasks += [TaskId(subtopology, _typed(number, int, key), topology) for number in _typed(partitions, tuple, key)]
    return tuple(tasks)


def _run_key(run: object, key: str) -> tuple[int, str | None]:
    if not isinstance(run, str):
        return _typed(run, int, key), None
    topology, _, subtopology = run.rpartition("__")
    if not subtopology.isdecimal() or len(subtopology) > INT32_DIGITS_MAX:
        raise _InvalidTrailer(f"{key} contains an invalid task id")
    return int(subtopology), topology


Kind = TypeVar("Kind")


def _typed(value: object, kind: type[Kind], key: str) -> Any:
    """Return ``value`` if it has exactly that type: to Python a bool is an int, on the wire it is not."""
    if type(value) is not kind:
        raise _InvalidTrailer(f"{key} has the wrong type")
    return value
