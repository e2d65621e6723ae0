"""What must hold of what a killed worker and its successor left: pure functions over what was read. Each answers with what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.worker.crash.app import answer_to, offsets_in
from tests.worker.crash.reading import Folder, Line


@dataclass(frozen=True, slots=True)
class Left:
    """Everything at the end. ``committed`` are the next input offsets that the group had when the process was killed."""

    inputs: Sequence[Line]
    changelog: Sequence[Line]
    answers: Sequence[Line]
    committed: Mapping[int, int]
    seeded: int
    exact: bool


def replayed(changelog: Iterable[Line], partition: int, before: int | None = None) -> dict[bytes, bytes]:
    """What a store holds that has read this far."""
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
    """No store is ahead of its changelog, and each holds what its changelog has up to the offset that it says.

    ``in_bulk``: a restore in bulk may have been cut off while it flushed, data first and offsets last. Then the store holds what
    the changelog has up to that offset or a later one.
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
    """Every input is applied; once, but for what was not committed when the process was killed."""
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
    """As the state: every input is answered, and twice only where that is allowed."""
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
    """At least once, an input may be applied again whose commit had not been answered."""
    bad = [offset for offset in twice if left.exact or offset < left.committed.get(partition, 0)]
    return [
        f"{what} of partition {partition}: inputs {says}: {list(offsets)} (committed at the kill: {dict(left.committed)})"
        for says, offsets in (("lost", lost), ("applied twice", bad), ("that never were", strange))
        if offsets
    ]
