"""Count the words that are the keys of the topic ``words``: ``python word_count.py localhost:9092``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Subtopology, Task, Worker


def count(task: Task, words: Sequence[Record]) -> None:
    counts = task.store("counts")
    for word in (record.key for record in words if record.key is not None):
        total = int(counts.get(word) or 0) + 1
        counts.put(word, b"%d" % total)
        task.emit("word-counts", word, b"%d" % total)


config = Config(application_id="word-count", bootstrap_servers=sys.argv[1])
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    Worker(config, [Subtopology(count, sources=["words"], stores=["counts"], sinks=["word-counts"])]).run()
