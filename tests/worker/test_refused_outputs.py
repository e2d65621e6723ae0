"""What is remembered of refused outputs, against a list of all refusals that is searched; and which are to blame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import RecordRefused
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.worker import refused_outputs
from kstreams_assign.worker.refused_outputs import FORBIDDEN_MS, Output, RefusedOutputs, to_blame

TASK = TaskId(0, 0)
KINDS = st.sampled_from(["too_large", "forbidden", "invalid", "untimely", "absent"])
STEPS_MS = st.integers(0, FORBIDDEN_MS)
ROWS = st.tuples(
    st.sampled_from(["out", "other"]),
    st.sampled_from([None, b"k", b"kk"]),
    st.sampled_from([None, b"", b"v", b"w", b"vv"]),
    st.sampled_from([(), (("h", b""),), (("h", b"v"),)]),
    st.sampled_from([None, 0, 7]),
    st.sampled_from([0, 5]),
)


def refused(kind: str, topic: str = "out", partition: int = -1) -> RecordRefused:
    return RecordRefused(
        kind,
        topic,
        partition,
        None,
        absent=kind == "absent",
        too_large=kind == "too_large",
        forbidden=kind == "forbidden",
        invalid=kind in ("invalid", "untimely", "absent"),
        untimely=kind == "untimely",
    )


def row(topic: str, key: bytes | None, size: int) -> Row:
    return topic, key, bytes(size - len(key or b"")), (), None, 0


def remember(memory: RefusedOutputs, kind: str, output: Row, now_ms: int) -> None:
    memory.remember(refused(kind, output[0]), [Output(TASK, output)], now_ms)


def size(output: Row) -> int:
    _, key, value, headers, *_ = output
    return len(key or b"") + len(value or b"") + sum(len(name) + len(content or b"") + 10 for name, content in headers)


def fits(kind: str, before: Row, output: Row) -> bool:
    """The slow twin's rule for one record."""
    alike = before[:2] == output[:2] and size(before) == size(output)
    same_value, same_partition, same_time = (before[n] == output[n] for n in (2, 4, 5))
    match kind:
        case "absent":
            return alike and same_partition
        case "invalid":
            return alike and (same_value or output[1] is None)
        case "untimely":
            return alike and same_value and same_time
    return alike


@given(st.lists(st.tuples(KINDS, ROWS, STEPS_MS)), ROWS)
def test_an_output_is_refused_as_one_like_it_was(refusals: list[tuple[str, Row, int]], output: Row) -> None:
    memory, now_ms = RefusedOutputs(), 0
    history: list[tuple[int, str, Row]] = []
    for kind, before, step_ms in refusals:
        now_ms += step_ms
        remember(memory, kind, before, now_ms)
        history.append((now_ms, kind, before))
    expected = any(
        (before[0] == output[0] and now_ms < then_ms + FORBIDDEN_MS)
        if kind == "forbidden"
        else fits(kind, before, output)
        for then_ms, kind, before in history
    )
    assert (memory.refusal(output, now_ms) is not None) == expected


def test_a_refused_timestamp_refuses_no_other_output_of_the_same_key_and_size() -> None:
    """A sensor with a wrong clock sends values of one size, and goes on when its clock is right again."""
    memory = RefusedOutputs()
    bad: Row = ("temps", b"sensor-1", b"\x01" * 8, (), None, 4_102_444_800_000)
    remember(memory, "untimely", bad, 0)
    assert memory.refusal(bad, 0) is not None
    assert memory.refusal((*bad[:2], b"\x02" * 8, (), None, 1_700_000_000_000), 0) is None
    assert memory.refusal((*bad[:5], 1_700_000_000_000), 0) is None


def test_a_forbidden_topic_is_tried_again_after_a_minute() -> None:
    memory = RefusedOutputs()
    assert not memory
    remember(memory, "forbidden", row("out", b"k", 2), 1_000)
    assert memory.refusal(row("out", b"another", 9), FORBIDDEN_MS + 999) is not None
    assert memory.refusal(row("other", b"k", 2), FORBIDDEN_MS + 999) is None
    assert memory.refusal(row("out", b"another", 9), FORBIDDEN_MS + 1_000) is None
    assert not memory, "nothing is asked for outputs any more"


def test_the_oldest_refusal_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_outputs, "REFUSALS_MAX", 2)
    memory = RefusedOutputs()
    for length in (2, 3, 4):
        remember(memory, "too_large", row("out", b"k", length), 0)
    assert [memory.refusal(row("out", b"k", length), 0) is not None for length in (2, 3, 4)] == [False, True, True]


# --- which outputs are to blame -----------------------------------------------------------------------


def timed(*times: int) -> list[Output]:
    return [Output(TASK, ("out", b"k", b"on", (), None, time_ms)) for time_ms in times]


@pytest.mark.parametrize(
    ("times", "blamed"),
    [
        ((7,), (7,)),
        ((1_007,), (1_007,)),
        ((5, 5), (5, 5)),
        ((999, 1_000, 3), (3,)),
        ((1_001, 9_000, 1_500), (9_000,)),
        ((1_000, 1_001), ()),
        ((), ()),
    ],
)
def test_of_outputs_that_differ_in_their_time_the_one_that_is_farthest_off_is_to_blame(
    times: tuple[int, ...], blamed: tuple[int, ...]
) -> None:
    """Where some are later than now and some are not, it is unknown which limit was exceeded."""
    assert to_blame(refused("untimely"), timed(*times), None, 1_000) == timed(*blamed)


def test_of_equal_outputs_the_one_to_the_missing_partition_is_to_blame() -> None:
    outputs = [Output(TASK, ("out", b"k", b"v", (), partition, 0)) for partition in (None, 0, 7)]
    assert to_blame(refused("absent", partition=7), outputs, None, 0) == outputs[2:]


def test_of_outputs_with_the_same_key_and_value_those_with_large_headers_are_to_blame() -> None:
    small, large = (Output(TASK, ("out", b"k", bytes(500), headers, None, 0)) for headers in ((), [("h", bytes(500))]))
    too_large = refused("too_large")
    assert to_blame(too_large, [small, large], 1_000, 0) == [large]
    assert to_blame(too_large, [small, large], None, 0) == [], "the limit is unknown"
    memory = RefusedOutputs()
    memory.remember(too_large, [large], 0)
    assert [memory.refusal(output.row, 0) is not None for output in (small, large)] == [False, True]
