"""Check what a killed worker and its successor left. Pure functions; each returns the violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.worker.crash.app import answer_to, offsets_in
from tests.worker.crash.reading import Folder, Line


@dataclass(frozen=True, slots=True)
class Left:
    """The topics at the end. ``committed``: the group's next input offsets when the process was killed."""

    inputs: Sequence[Line]
    changelog: Sequence[Line]
    answers: Sequence[Line]
    committed: Mapping[int, int]
    seeded: int
    exact: bool


def replayed(changelog: Iterable[Line], partition: int, before: int | None = None) -> dict[bytes, bytes]:
    """Return what a store holds after it has read the changelog up to ``before``."""
    values: dict[bytes, bytes] = {}
    for line in changelog:
        if line.partition == partition and (before is None or line.offset < before) and line.key is not None:
            if line.value is None:
                values.pop(line.key, None)
            else:
                values[line.key] = line.value
    return values


def wrong_folders(
    folders: Iterable[Folder], changelog: Sequence[Line], ends: Mapping[int, int], *, in_bulk: bool = False
) -> list[str]:
    """Check that no store is ahead of its changelog, and that each holds the changelog up to the offset in the store.

    ``in_bulk``: a restore in bulk may have stopped in a flush, which writes data first and offsets last. Then the store
    holds the changelog up to that offset or a later one.
    """
    wrong: list[str] = []
    for folder in folders:
        end = ends[folder.partition]
        later = range(folder.offset or 0, end + 1) if in_bulk else ()
        if any(folder.entries == replayed(changelog, folder.partition, offset) for offset in later):
            continue
        if folder.offset is None:
            wrong += [f"{folder.where}: has {len(folder.entries)} entries and no offset"] if folder.entries else []
        elif folder.offset > ends[folder.partition]:
            wrong.append(f"{folder.where}: at {folder.offset}, ahead of its changelog's end {ends[folder.partition]}")
        elif folder.entries != (due := replayed(changelog, folder.partition, folder.offset)):
            wrong.append(f"{folder.where}: at {folder.offset} holds {folder.entries}, its changelog {due}")
    return wrong


def wrong_state(left: Left) -> list[str]:
    """Every input is applied, and applied once if it was committed when the process was killed."""
    wrong: list[str] = []
    for partition in sorted({line.partition for line in left.inputs}):
        state = replayed(left.changelog, partition)
        applied = {key: Counter(offsets_in(value)) for key, value in state.items()}
        due = [(line.key, line.offset) for line in left.inputs if line.partition == partition]
        lost = [offset for key, offset in due if not applied.get(key or b"", Counter())[offset]]
        twice = sorted(offset for counts in applied.values() for offset, count in counts.items() if count > 1)
        known = {offset for _, offset in due}
        strange = sorted(offset for counts in applied.values() for offset in counts if offset not in known)
        wrong += _about("state", partition, left, lost, twice, strange)
    return wrong


def wrong_answers(left: Left) -> list[str]:
    """Every input has an answer; a second answer is allowed as in ``wrong_state``."""
    wrong: list[str] = []
    given = Counter(line.value for line in left.answers)
    for partition in sorted({line.partition for line in left.inputs}):
        due = [line.offset for line in left.inputs if line.partition == partition and line.offset >= left.seeded]
        lost = [offset for offset in due if not given[answer_to(partition, offset)]]
        twice = [offset for offset in due if given[answer_to(partition, offset)] > 1]
        wrong += _about("answers", partition, left, lost, twice, [])
    return wrong


def _about(
    what: str, partition: int, left: Left, lost: Sequence[int], twice: Sequence[int], strange: Sequence[int]
) -> list[str]:
    """List the violations. At least once, an input may be applied again if its commit was not answered."""
    committed = dict(left.committed)
    bad = [offset for offset in twice if left.exact or offset < committed.get(partition, 0)]
    return [
        f"{what} of partition {partition}: inputs {says}: {list(offsets)} (committed at the kill: {committed})"
        for says, offsets in (("lost", lost), ("applied twice", bad), ("that never were", strange))
        if offsets
    ]
