"""The application that is killed: each key's value lists the input offsets applied to it, and each input has an answer.

The state alone, and the answers alone, show what was lost and what was applied twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kstreams_assign import Record, Subtopology, Task

STORE = "applied"
BETWEEN = "answers-between"
PARTITIONS = 2
KEYS = 5


def key_of(offset: int) -> bytes:
    return b"key-%d" % (offset % KEYS)


def answer_to(partition: int, offset: int) -> bytes:
    return b"%d:%d" % (partition, offset)


def applied_to(value: bytes | None, offset: int) -> bytes:
    return b"%d" % offset if value is None else value + b",%d" % offset


def offsets_in(value: bytes) -> list[int]:
    return [int(offset) for offset in value.split(b",")]


def answers_topic(application: str) -> str:
    return f"{application}-answers"


def changelog_topic(application: str) -> str:
    return f"{application}-{STORE}-changelog"


def between_topic(application: str) -> str:
    return f"{application}-{BETWEEN}-repartition"


def apply(task: Task, records: Sequence[Record], to: str | None = None) -> None:
    """Apply the records. Answers go ``to`` a topic of this name, or directly to the answers topic."""
    store = task.store(STORE)
    for record in records:
        assert record.key is not None
        store.put(record.key, applied_to(store.get(record.key), record.offset))
        task.emit(to or answers_topic(record.topic), record.key, answer_to(record.partition, record.offset))


def topology(application: str, work=apply, *, purges: bool = False) -> list[Subtopology]:
    """Build the topology; the input topic has the application's name. ``purges``: through a repartition topic."""
    answers = answers_topic(application)
    if not purges:
        return [Subtopology(process=work, sources=[application], stores=[STORE], sinks=[answers])]

    def pass_on(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            assert record.key is not None
            task.emit(answers, record.key, record.value)

    return [
        Subtopology(process=partial(work, to=BETWEEN), sources=[application], stores=[STORE], sinks=[BETWEEN]),
        Subtopology(process=pass_on, repartition_sources=[BETWEEN], sinks=[answers]),
    ]
