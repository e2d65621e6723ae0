"""The application that is killed: each key's value lists the input offsets that were applied to it, each input is answered.

So what was lost and what was applied twice can be read from the state alone, and from the answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign import Record, Subtopology, Task

STORE = "applied"
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


def apply(task: Task, records: Sequence[Record]) -> None:
    """The work."""
    store = task.store(STORE)
    for record in records:
        assert record.key is not None
        store.put(record.key, applied_to(store.get(record.key), record.offset))
        task.emit(answers_topic(record.topic), record.key, answer_to(record.partition, record.offset))


def topology(application: str, work=apply) -> list[Subtopology]:
    """Its input topic has the application's name."""
    return [Subtopology(process=work, sources=[application], stores=[STORE], sinks=[answers_topic(application)])]
