"""Count the views of each page, a batch at a time: ``python whole_batches.py localhost:9092``.

The keys of the topic ``page-views`` are pages.
"""

import signal
import sys
from contextlib import suppress

from kstreams_assign import Batch, Config, Subtopology, Task, Worker


def count(task: Task, views: Batch) -> None:
    totals = task.store("totals")
    pages = [page or b"" for page in views.keys_as(bytes)]
    different = list(dict.fromkeys(pages))
    newest = {page: int(total or 0) for page, total in zip(different, totals.get_many(different), strict=True)}
    outputs = []
    for page in pages:
        newest[page] += 1
        outputs.append((page, b"%d" % newest[page]))
    totals.put_many((page, b"%d" % total) for page, total in newest.items())
    task.emit_many("page-totals", outputs, views.timestamps_ms())


config = Config(application_id="count-page-views", bootstrap_servers=sys.argv[1])
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    Worker(config, [Subtopology(count, sources=["page-views"], stores=["totals"], sinks=["page-totals"])]).run()
