"""Count the words of lines: ``python repartitioned_word_count.py localhost:9092 [folder]``.

It reads ``lines`` and writes ``line-word-counts``. Different tasks count the words of one line, so the words go
through a repartition topic: the leader creates ``line-words-words-repartition``, and counted words are deleted from it.
Java's ``groupBy(...).count()`` has the same shape, and may run in the same group: ``topology_description`` below is
what its ``Topology.describe()`` prints.
"""

import struct
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Subtopology, Task, Worker

LONG = struct.Struct(">q")  # as Java's Serdes.Long() writes it
TOPOLOGY = """Topologies:
   Sub-topology: 0
    Source: read-lines (topics: [lines])
      --> split-lines
    Processor: split-lines (stores: [])
      --> words-repartition-sink
      <-- read-lines
    Sink: words-repartition-sink (topic: words-repartition)
      <-- split-lines

  Sub-topology: 1
    Source: words-repartition-source (topics: [words-repartition])
      --> count-words
    Processor: count-words (stores: [counts])
      --> write-counts
      <-- words-repartition-source
    Sink: write-counts (topic: line-word-counts)
      <-- count-words
"""


def split(task: Task, lines: Sequence[Record]) -> None:
    for line in lines:
        for word in (line.value or b"").split():  # a line may be deleted: no value
            task.emit("words", word, word)


def count(task: Task, words: Sequence[Record]) -> None:
    counts = task.store("counts")
    for word in (record.key for record in words if record.key is not None):
        before = counts.get(word)
        total = LONG.pack((LONG.unpack(before)[0] if before else 0) + 1)
        counts.put(word, total)
        task.emit("line-word-counts", word, total)


config = Config(
    application_id="line-words",
    bootstrap_servers=sys.argv[1],
    state_dir=sys.argv[2] if len(sys.argv) > 2 else "state",
    assignor="high_availability",  # as Java decides: an instance in Java may join at any time
)
topology = [
    Subtopology(count, repartition_sources=["words"], stores=["counts"], sinks=["line-word-counts"]),
    Subtopology(split, sources=["lines"], sinks=["words"]),
]
with suppress(KeyboardInterrupt):  # Ctrl-C commits, closes the tasks and leaves the group
    Worker(config, topology, topology_description=TOPOLOGY).run()
