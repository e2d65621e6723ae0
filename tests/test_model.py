"""The shared nouns: task ids, Java's order of process ids, tasks of a topology."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError, InvalidTaskId
from kstreams_assign.model import (
    HostInfo,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
    TopologyShape,
    process_order,
)

numbers = st.integers(min_value=0, max_value=2**31 - 1)


@given(numbers, numbers, st.none() | st.text("ab_", min_size=1, max_size=4).filter(lambda t: not t.endswith("_")))
def test_a_task_id_is_read_back_from_its_text(subtopology: int, partition: int, topology: str | None) -> None:
    task = TaskId(subtopology, partition, topology)
    assert TaskId.parse(str(task)) == task


@pytest.mark.parametrize("text", ["", "0", "0_", "_0", "a_b", "0-1", "-1_0", "__0_1"])
def test_what_is_no_task_id_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(InvalidTaskId, match="is not a task id"):
        TaskId.parse(text)


@pytest.mark.parametrize("digits", [11, 5_000], ids=["more than an int32 has", "more than int() reads"])
@pytest.mark.parametrize("form", ["{}_0", "0_{}", "topology__{}_0"])
def test_a_number_of_too_many_digits_is_refused(form: str, digits: int) -> None:
    with pytest.raises(InvalidTaskId, match="is not a task id"):
        TaskId.parse(form.format("9" * digits))


def test_process_ids_sort_as_signed_halves_as_in_java() -> None:
    negative = UUID("80000000-0000-0000-0000-000000000000")
    positive = UUID("00000000-0000-0000-0000-000000000001")
    low_half_negative = UUID("00000000-0000-0000-8000-000000000000")
    assert sorted([positive, negative, low_half_negative], key=process_order) == [negative, low_half_negative, positive]


def test_a_subtopology_has_as_many_tasks_as_its_largest_source_has_partitions() -> None:
    shape = TopologyShape(
        (SubtopologyShape(("b", "a"), (Store("s"), Store("t", logged=False))), SubtopologyShape(("c",)))
    )
    tasks = shape.tasks({"a": 1, "b": 2, "c": 1})
    assert tasks == {
        TaskId(0, 0): (TopicPartition("a", 0), TopicPartition("b", 0)),
        TaskId(0, 1): (TopicPartition("b", 1),),
        TaskId(1, 0): (TopicPartition("c", 0),),
    }
    assert shape.changelogs("app", TaskId(0, 1)) == {"s": TopicPartition("app-s-changelog", 1)}
    assert [sub.stateful for sub in shape.subtopologies] == [True, False]


@pytest.mark.parametrize("name", ["", 5, None, b"totals"])
def test_a_store_needs_a_name(name: Any) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"store: name = {name!r}: must be a non-empty string")):
        Store(name)


@pytest.mark.parametrize("flag", ["logged", "timestamped", "drop_headers", "in_memory"])
@pytest.mark.parametrize("value", ["false", 0, None])
def test_a_flag_of_a_store_is_true_or_false(flag: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^store totals: {flag} = {value!r}: must be True or False$"):
        Store("totals", **{flag: value})


@pytest.mark.parametrize(
    ("host", "text"),
    [("pod", "pod:80"), ("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80"), ("[::1]", "[::1]:80"), ("", ":80")],
)
def test_an_endpoint_is_written_with_an_ipv6_address_in_brackets(host: str, text: str) -> None:
    assert str(HostInfo(host, 80)) == text
