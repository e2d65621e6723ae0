"""Count per key with the library, a batch at a time. Arguments: see ``count.py``."""

from __future__ import annotations

import sys

from kstreams_assign import Batch, Config, Subtopology, Task, Worker


def main(servers: str, application: str, state: str, source: str, sink: str) -> None:
    """Run until it is killed."""

    def count(task: Task, records: Batch) -> None:
        counts = task.store("counts")
        keys = [key or b"" for key in records.keys_as(bytes)]
        different = list(dict.fromkeys(keys))
        newest = {key: int(total or 0) for key, total in zip(different, counts.get_many(different), strict=True)}
        outputs = []
        for key in keys:
            newest[key] += 1
            outputs.append((key, b"%d" % newest[key]))
        counts.put_many((key, b"%d" % total) for key, total in newest.items())
        task.emit_many(sink, outputs)

    config = Config(application_id=application, bootstrap_servers=servers, state_dir=state)
    Worker(config, [Subtopology(count, sources=[source], stores=["counts"], sinks=[sink])]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
