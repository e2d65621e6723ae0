"""A counting worker in its own process whose function cannot process poison: ``python -m tests.worker.poisoned``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kstreams_assign import Record, Task
from tests.worker.app import count
from tests.worker.process import main

POISON = b"poison"


def count_good(task: Task, records: Sequence[Record]) -> None:
    """Raise behind the first poison record, which is counted already then, as are those before it."""
    for record in records:
        count(task, [record])
        if record.value == POISON:
            raise ValueError(f"offset {record.offset}")


if __name__ == "__main__":
    main(sys.argv[1], count_good, "dead_letter")
