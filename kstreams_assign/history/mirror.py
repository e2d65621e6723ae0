"""A table's log in two places: what a copy lacks, in which order files travel, and what no reader needs any more.

What lives here: the names in a log, and rules over lists of them. What must not: files, clocks, Delta Lake's library
and Hadoop. The idea: an entry is a version's commit, and its file is created once and never changed. A checkpoint has
what all entries up to its version come to. So a reader needs one checkpoint and the entries behind it.

What a transfer that is cut off leaves: files of rows without an entry, which belong to no version; an entry without its
checkpoint, which a later one replaces; a checkpoint without the hint that names it, which a list of the log still
shows. No entry is sent before the files that it names, so each of these is a whole table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

HINT = "_last_checkpoint"
"""The file of a log that names its newest checkpoint, so that a reader need not list the log."""

_NAME = re.compile(r"(?P<version>\d{20})\.(?P<rest>.+)")
_CHECKPOINT = re.compile(r"checkpoint(?:\.(?P<part>\d{10})\.(?P<parts>\d{10}))?\.parquet")


class Listed(NamedTuple):
    """A file as a file system lists it: its path below the folder that was listed, and when it was written."""

    path: str
    size: int
    modified_ms: int


def entry(version: int) -> str:
    """Return the name of a version's commit."""
    return f"{version:020d}.json"


def version_of(name: str) -> int | None:
    """Return the version that a file of a log is about; None for the hint and for what is no file of a log."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match["version"])


def checkpoints_of(names: Iterable[str]) -> dict[int, tuple[str, ...]]:
    """Return the files of each checkpoint, by version. One that lacks a part is left out."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        checkpoint = match and _CHECKPOINT.fullmatch(match["rest"])
        if match and checkpoint:
            parts.setdefault((int(match["version"]), int(checkpoint["parts"] or 1)), []).append(name)
    return {version: tuple(sorted(own)) for (version, count), own in sorted(parts.items()) if len(own) == count}


def hinted(content: bytes) -> tuple[str, ...]:
    """Return the files of the checkpoint that a hint names; none if the hint cannot be read."""
    try:
        hint = json.loads(content)
        version, parts = int(hint["version"]), int(hint.get("parts") or 1)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()
    if parts == 1:
        return (f"{version:020d}.checkpoint.parquet",)
    return tuple(f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet" for part in range(1, parts + 1))


def files_of(names: Collection[str], version: int) -> list[str] | None:
    """Return what a reader of a version needs, in the order in which to fetch it; None if that is not there.

    With a checkpoint also the entry of its version, whose time is that of the version.
    """
    present = set(names)
    if entry(version) not in present:
        return None
    needed = []
    checkpoints = checkpoints_of(present)
    for at in range(version, -1, -1):
        if entry(at) in present:
            needed.append(entry(at))
        if at in checkpoints:
            return [*checkpoints[at], *reversed(needed)]
        if entry(at) not in present:
            return None
    return needed[::-1]


def entries_of(names: Iterable[str]) -> list[int]:
    """Return the versions whose entries are there, in order."""
    return sorted(version for name in names if (version := version_of(name)) is not None and name == entry(version))


def readable(names: Collection[str]) -> list[int]:
    """Return the versions that can be read, in order."""
    present = set(names)
    checkpoints = checkpoints_of(present)
    versions: list[int] = []
    for version in entries_of(present):
        if version == 0 or version in checkpoints or version - 1 in checkpoints or versions[-1:] == [version - 1]:
            versions.append(version)
    return versions


def version_at(log: Collection[Listed], time_ms: int) -> int | None:
    """Return the version that was the newest at a time: the last whose entry was there; None before the first."""
    return max((v for v in entries_of(f.path for f in log if f.modified_ms <= time_ms)), default=None)


def expired(log: Sequence[Listed], cutoff_ms: int) -> list[str]:
    """Return the files that no reader of a version needs that was the newest at ``cutoff_ms`` or later.

    These are the files before the last checkpoint from which the version of that time can be read, oldest first.
    """
    at_cutoff = version_at(log, cutoff_ms)
    if at_cutoff is None:
        return []
    start = max((version for version in checkpoints_of(f.path for f in log) if version <= at_cutoff), default=0)
    old = {f.path: version for f in log if (version := version_of(f.path)) is not None and version < start}
    return sorted(old, key=lambda path: (old[path], path))


def unsent(names: Collection[str], newest: int) -> list[str]:
    """Return the files of a log that are behind ``newest``, in the order in which to send them.

    Each entry first, as it is the commit; then what was made of it; the hint last, as it names a checkpoint.
    """
    behind = {name: version for name in names if (version := version_of(name)) is not None and version > newest}
    hint = [HINT] if HINT in names and any(version in checkpoints_of(behind) for version in behind.values()) else []
    return [*sorted(behind, key=lambda name: (behind[name], name != entry(behind[name]), name)), *hint]


def refused(names: Collection[str], version: int) -> list[str]:
    """Return the files of a log to drop when another run has committed ``version`` first: that one, and what follows.

    The hint, too, as it may name a checkpoint of them.
    """
    return [name for name in names if name == HINT or ((at := version_of(name)) is not None and at >= version)]
