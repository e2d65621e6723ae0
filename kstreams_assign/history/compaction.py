"""Many files of a day become few, while readers read: the format's own OPTIMIZE and VACUUM, and when they are due.

What lives here: which days are merged. What must not: how. Readers of an older version keep their files for a week.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kstreams_assign.history.writing import Boundary, HistoryWriter, no_boundary

MANY = 100
"""So many files are merged on the present day, too."""


class Merged(NamedTuple):
    """A day that was compacted: so many files became ``files_left``."""

    table: str
    day: str
    files: int
    files_left: int


def compact(writer: HistoryWriter, today: str, reached: Boundary = no_boundary, many: int = MANY) -> list[Merged]:
    """Merge each past day that has several files, and ``today`` (UTC) if it has ``many``; then delete what is too old.

    ``reached`` is called at each point where a run may be killed.
    """
    merged = []
    for name, table in writer.tables.items():
        files = Counter(file.part for file in table.files())
        for day, count in sorted(files.items()):
            if count >= (2 if day < today else many) and table.compact(day):
                left = sum(file.part == day for file in table.files())
                merged.append(Merged(name, day, count, left))
                reached(f"merged {name}")
    writer.vacuum()
    return merged
