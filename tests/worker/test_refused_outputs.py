"""What is remembered of refused outputs, against a list of all refusals that is searched from its end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import RecordRefused
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.worker import refused_outputs
from kstreams_assign.worker.refused_outputs import FORBIDDEN_MS, RefusedOutputs

TOPICS = st.sampled_from(["out", "other"])
KEYS = st.sampled_from([None, b"k", b"kk"])
SIZES = st.integers(2, 4)
STEPS_MS = st.integers(0, FORBIDDEN_MS)
PARTITIONS = st.sampled_from([-1, 0, 7])
KINDS = st.sampled_from(["too_large", "forbidden", "invalid", "absent"])


def refused(topic: str, key: bytes | None, size: int, kind: str, partition: int) -> RecordRefused:
    return RecordRefused(
        kind,
        topic,
        partition,
        key,
        absent=kind == "absent",
        too_large=kind == "too_large",
        size_bytes=size,
        forbidden=kind == "forbidden",
        invalid=kind in ("invalid", "absent"),
    )


def row(topic: str, key: bytes | None, size: int, partition: int | None = None) -> Row:
    return topic, key, bytes(size - len(key or b"")), (), partition, 0


def fits(refusal: RecordRefused, output: Row) -> bool:
    """The slow twin's rule for one record."""
    topic, key, value, _, partition, _ = output
    same = (refusal.topic, refusal.key, refusal.size_bytes) == (topic, key, len(key or b"") + len(value or b""))
    return same and (not refusal.absent or refusal.partition == partition)


@given(st.lists(st.tuples(TOPICS, KEYS, SIZES, KINDS, PARTITIONS, STEPS_MS)), TOPICS, KEYS, SIZES, PARTITIONS)
def test_an_output_is_refused_as_one_like_it_was(
    refusals: list[tuple[str, bytes | None, int, str, int, int]],
    topic: str,
    key: bytes | None,
    size: int,
    partition: int,
) -> None:
    memory, now_ms = RefusedOutputs(), 0
    history: list[tuple[int, RecordRefused]] = []
    for refused_topic, refused_key, refused_size, kind, at, step_ms in refusals:
        now_ms += step_ms
        refusal = refused(refused_topic, refused_key, refused_size, kind, at)
        memory.remember(refusal, now_ms)
        history.append((now_ms, refusal))
    output = row(topic, key, size, None if partition < 0 else partition)
    expected = any(
        (refusal.topic == topic and now_ms < then_ms + FORBIDDEN_MS) if refusal.forbidden else fits(refusal, output)
        for then_ms, refusal in history
    )
    assert (memory.refusal(output, now_ms) is not None) == expected


def test_a_forbidden_topic_is_tried_again_after_a_minute() -> None:
    memory = RefusedOutputs()
    assert not memory
    memory.remember(refused("out", b"k", 2, "forbidden", 0), 1_000)
    assert memory.refusal(row("out", b"another", 9), FORBIDDEN_MS + 999) is not None
    assert memory.refusal(row("other", b"k", 2), FORBIDDEN_MS + 999) is None
    assert memory.refusal(row("out", b"another", 9), FORBIDDEN_MS + 1_000) is None
    assert not memory, "nothing is asked for outputs any more"


def test_the_oldest_refusal_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_outputs, "REFUSALS_MAX", 2)
    memory = RefusedOutputs()
    for size in (2, 3, 4):
        memory.remember(refused("out", b"k", size, "too_large", 0), 0)
    assert [memory.refusal(row("out", b"k", size), 0) is not None for size in (2, 3, 4)] == [False, True, True]
