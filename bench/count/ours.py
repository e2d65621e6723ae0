"""Count per key with the library: one record at a time, as a user would write it. Arguments: see ``count.py``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kstreams_assign import Config, Record, Subtopology, Task, Worker


def main(servers: str, application: str, state: str, source: str, sink: str) -> None:
    """Run until it is killed."""

    def count(task: Task, records: Sequence[Record]) -> None:
        counts = task.store("counts")
        for record in records:
            assert record.key is not None
            now = b"%d" % (int(counts.get(record.key) or 0) + 1)
            counts.put(record.key, now)
            task.emit(sink, record.key, now)

    config = Config(application_id=application, bootstrap_servers=servers, state_dir=state)
    Worker(config, [Subtopology(count, sources=[source], stores=["counts"], sinks=[sink])]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
