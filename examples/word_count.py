"""Count words: ``python word_count.py localhost:9092`` reads the topic ``words``, where each record's key is a word."""

import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Subtopology, Task, Worker


def count(task: Task, words: Sequence[Record]) -> None:
    counts = task.store("counts")
    for word in words:
        total = int(counts.get(word.key) or 0) + 1
        counts.put(word.key, b"%d" % total)
        task.emit("word-counts", word.key, b"%d" % total)


config = Config(application_id="word-count", bootstrap_servers=sys.argv[1])
with suppress(KeyboardInterrupt):  # Ctrl-C commits, closes the tasks and leaves the group
    Worker(config, [Subtopology(count, sources=["words"], stores=["counts"], sinks=["word-counts"])]).run()
