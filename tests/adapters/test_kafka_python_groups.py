"""Questions to a group's coordinator that has moved to another broker.

kafka-python's own client asks them; the answers are ours.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata

from kstreams_assign.adapters.kafka_python import GroupDescriber, streams_groups
from kstreams_assign.adapters.kafka_python.groups import _RawAdmin
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition

OLD, NEW = 1, 2
AT = TopicPartition("t", 0)
PATIENCE_S = 60.0
NOT_COORDINATOR = kafka_errors.NotCoordinatorError.errno


def not_coordinator(_node: int) -> int:
    return NOT_COORDINATOR


def unreachable(node: int) -> int:
    raise kafka_errors.KafkaConnectionError(node)


class Brokers:
    """Stands in for the connections. ``OLD`` is named as the coordinator first, and is no longer it; ``NEW`` is."""

    broker_version_data = SimpleNamespace(api_version=lambda _request: 8)

    def __init__(self, old: Callable[[int], int]) -> None:
        self.cluster, self.asked = ClusterMetadata(), Counter[int]()
        self._old, self._coordinators = old, iter((OLD,))

    def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        coroutine = call(*arguments)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("no answer is waited for")

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        if node_id is None:
            coordinator = next(self._coordinators, NEW)
            rows = [
                SimpleNamespace(key=key, error_code=0, node_id=coordinator, host="h", port=1)
                for key in request.coordinator_keys
            ]
            return SimpleNamespace(coordinators=rows)
        self.asked[node_id] += 1
        error_code = self._old(node_id) if node_id == OLD else 0
        committed = SimpleNamespace(
            partition_index=0, error_code=0, committed_offset=7, metadata="text", committed_leader_epoch=-1
        )
        group = SimpleNamespace(
            group_id="g",
            error_code=error_code,
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="stream",
            members=[],
            topics=[SimpleNamespace(name="t", partitions=[committed])],
        )
        return SimpleNamespace(API_VERSION=8, error_code=0, groups=[group])


class _Admin(_RawAdmin):
    def __init__(self, brokers: Brokers) -> None:  # connects to no broker
        self._manager = brokers


def describer(brokers: Brokers) -> GroupDescriber:
    return GroupDescriber(_Admin(brokers), PATIENCE_S)


def state(groups: GroupDescriber) -> str | None:
    described = groups.describe("g")
    return None if described is None else described.state


QUESTIONS = pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (state, "Stable"),
        (lambda groups: groups.committed_offsets("g"), {AT: 7}),
        (lambda groups: groups.committed_metadata("g", iter([AT])), {AT: "text"}),
    ],
    ids=["describe", "committed_offsets", "committed_metadata"],
)


@QUESTIONS
def test_a_coordinator_that_has_moved_is_looked_up_again(ask: Callable[[GroupDescriber], Any], answer: Any) -> None:
    brokers, began = Brokers(not_coordinator), time.monotonic()
    assert ask(describer(brokers)) == answer
    assert brokers.asked == {OLD: 1, NEW: 1}
    assert time.monotonic() - began < PATIENCE_S


@QUESTIONS
def test_after_a_coordinator_was_unreachable_the_next_question_looks_it_up(
    ask: Callable[[GroupDescriber], Any], answer: Any
) -> None:
    brokers = Brokers(unreachable)
    groups = describer(brokers)
    with pytest.raises(BrokerUnavailable, match=r"of g|group g"):
        ask(groups)
    assert ask(groups) == answer
    assert brokers.asked == {OLD: 1, NEW: 1}


def test_a_coordinator_that_stays_away_is_waited_for_until_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(not_coordinator)
    brokers._coordinators = iter([OLD] * 1_000)
    seconds = count()
    monkeypatch.setattr(streams_groups, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with pytest.raises(BrokerUnavailable, match=r"describe group g: .*NotCoordinatorError"):
        GroupDescriber(_Admin(brokers), 3).describe("g")
    assert brokers.asked == {OLD: 3}
