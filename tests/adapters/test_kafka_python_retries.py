"""A coordinator that is away is asked less and less often, and at once again when it has answered."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from uuid import uuid4

import pytest
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownError,
    UnknownMemberIdError,
)

from kstreams_assign.adapters.kafka_python import GroupClient
from kstreams_assign.adapters.kafka_python.retries import FIRST_S, LONGEST_S, SPREAD, Retries, space_retries
from kstreams_assign.local import LocalBroker
from tests.adapters.test_kafka_python_join_results import Protocol

JOIN, HEARTBEAT, FIND = "_do_join_and_sync_async", "_send_heartbeat_request", "_send_group_coordinator_request"


class Coordinator(SimpleNamespace):
    """A coordinator whose answers the test sets, and a clock that moves while its client sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        self.error: KafkaError | None = None
        self.slept: list[float] = []

        async def ask() -> str:
            if self.error is not None:
                raise self.error
            return "answer"

        async def sleep(delay_s: float) -> None:
            self.slept.append(delay_s)
            self.now_s += delay_s

        super().__init__(_manager=SimpleNamespace(_net=SimpleNamespace(sleep=sleep)))
        for name in (JOIN, HEARTBEAT, FIND):
            setattr(self, name, ask)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        space_retries(self)

    def waited_s(self, name: str, error: KafkaError | None = None) -> float:
        """Ask; return how long the client waited before that."""
        before, self.error = len(self.slept), error
        with nullcontext() if error is None else pytest.raises(type(error)):
            assert asyncio.run(getattr(self, name)()) == "answer"
        return sum(self.slept[before:])


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    return Coordinator(monkeypatch)


def about(wait_s: float) -> object:
    return pytest.approx(wait_s, rel=SPREAD)


def test_the_waits_double_up_to_the_longest() -> None:
    retries, waits = Retries(Random(1)), []
    for now_s in range(100):
        retries.fail(now_s)
        waits.append(retries.left_s(now_s))
    assert waits == [about(min(FIRST_S * 2**number, LONGEST_S)) for number in range(100)]
    assert len(set(waits)) == 100, "members do not ask at the same time"
    assert retries.left_s(now_s + LONGEST_S / 2) < waits[-1]
    assert retries.left_s(now_s + 2 * LONGEST_S) == 0
    retries.succeed()
    assert retries.left_s(now_s) == 0


@pytest.mark.parametrize("name", [JOIN, HEARTBEAT, FIND])
@pytest.mark.parametrize("error", [NotCoordinatorError(), CoordinatorLoadInProgressError(), UnknownError()], ids=repr)
def test_whatever_is_asked_waits_longer_after_each_failure(
    coordinator: Coordinator, name: str, error: KafkaError
) -> None:
    assert [coordinator.waited_s(name, error) for _ in range(4)] == [0, *(about(FIRST_S * 2**n) for n in range(3))]


def test_the_time_that_has_passed_is_not_waited_again(coordinator: Coordinator) -> None:
    coordinator.waited_s(JOIN, NotCoordinatorError())
    coordinator.now_s += LONGEST_S
    assert coordinator.waited_s(JOIN) == 0


def test_a_coordinator_that_is_found_has_not_answered_yet(coordinator: Coordinator) -> None:
    for _ in range(6):
        coordinator.waited_s(JOIN, NotCoordinatorError())
    assert coordinator.waited_s(FIND) == about(FIRST_S * 2**5)
    coordinator.waited_s(JOIN, NotCoordinatorError())
    assert coordinator.waited_s(FIND) == about(LONGEST_S)


@pytest.mark.parametrize("name", [JOIN, HEARTBEAT])
@pytest.mark.parametrize("error", [None, RebalanceInProgressError(), UnknownMemberIdError()], ids=repr)
def test_an_answer_ends_the_waits_also_if_it_is_a_refusal(
    coordinator: Coordinator, name: str, error: KafkaError | None
) -> None:
    for _ in range(6):
        coordinator.waited_s(FIND, CoordinatorNotAvailableError())
    coordinator.waited_s(name, error)
    assert coordinator.waited_s(name, NotCoordinatorError()) == 0
    assert coordinator.waited_s(name) == about(FIRST_S)


def test_a_group_that_no_broker_can_have_is_not_asked_for_all_the_time() -> None:
    """The broker would need two others for its groups, so it has no coordinator for any."""
    with LocalBroker(settings={"offsets.topic.replication.factor": "3"}) as broker:
        client = GroupClient(
            group_id=f"g-{uuid4().hex}",
            bootstrap_servers=broker.bootstrap_servers,
            topics=["none"],
            protocol_name="stream",
            protocolist=Protocol(),
            settings={"session_timeout_ms": 30_000, "max_poll_interval_ms": 60_000, "retry_backoff_ms": 20},
        )
        asked_s: list[float] = []
        coordinator = client._coordinator
        handle = coordinator._handle_find_coordinator_response

        def handle_find_coordinator_response(response: object) -> object:
            asked_s.append(time.monotonic())
            return handle(response)

        coordinator._handle_find_coordinator_response = handle_find_coordinator_response
        began_s = time.monotonic()
        while len(asked_s) < 8:
            assert not client.join(0.1)
            assert time.monotonic() < began_s + 60
        client.close(5, leave=True)
    waits = [later - earlier for earlier, later in pairwise(asked_s)]
    assert all(wait_s >= (1 - SPREAD) * min(FIRST_S * 2**number, LONGEST_S) for number, wait_s in enumerate(waits)), (
        waits
    )
