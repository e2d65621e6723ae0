"""Sessions that expire, in a process to be killed: ``python -m tests.worker.expiring_process SETTINGS``.

The settings are ``tests.worker.process``'s; the end of ``application_id`` says by which clock entries expire.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from kstreams_assign import Record, Store, Task
from tests.worker.process import main

STORE = "sessions"
TTL_MS = {"stream": 60_000, "wall": 15_000}


def remember(task: Task, records: Sequence[Record]) -> None:
    store = task.store(STORE)
    for record in records:
        assert record.key is not None
        store.put(record.key, record.value)


def store_of(application_id: str) -> Store:
    """Return the store of an application."""
    clock = "wall" if application_id.endswith("wall") else "stream"
    return Store(STORE, ttl_ms=TTL_MS[clock], ttl_clock=clock)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1], remember, stores=[store_of(json.loads(sys.argv[1])["application_id"])])
