"""How many bytes a record of a topic may have is asked of the brokers seldom, also where they refuse to answer."""

from __future__ import annotations

import pytest

from kstreams_assign import Config
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.events import Event, LookupFailedEvent
from kstreams_assign.worker.first_look import RETRY_MS, RETRY_UNAVAILABLE_MS, TopicLimits


class Bench:
    """The limits, a clock, and brokers that have a limit of each topic, or refuse (None)."""

    def __init__(self) -> None:
        self.now_ms = 5_000
        self.limit: str | None = None
        self.error: BrokerError = BrokerError("not allowed")
        self.requests: list[str] = []
        self.events: list[Event] = []
        config = Config(application_id="app", bootstrap_servers="localhost:1")
        self.limits = TopicLimits(self, config, self, lambda: self.now_ms)  # type: ignore[arg-type]

    def topic_setting(self, topic: str, _key: str, _timeout_s: float) -> str:
        self.requests.append(topic)
        if self.limit is None:
            raise self.error
        return self.limit

    def emit(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def bench() -> Bench:
    return Bench()


REFUSED = LookupFailedEvent(what="max.message.bytes of dead", reason="not allowed")


def test_brokers_that_refuse_are_asked_once_a_minute(bench: Bench) -> None:
    began_ms = bench.now_ms
    for call in range(1_000):
        bench.now_ms = began_ms + call * (RETRY_MS - 1) // 999
        assert bench.limits.bytes_max_of("dead") is None
    assert (bench.requests, bench.events) == (["dead"], [REFUSED])

    bench.now_ms = began_ms + RETRY_MS
    assert bench.limits.bytes_max_of("dead") is None
    assert (bench.requests, bench.events) == (["dead"] * 2, [REFUSED] * 2)

    bench.now_ms += RETRY_MS
    bench.limit = "1000"
    assert [bench.limits.bytes_max_of("dead") for _ in range(3)] == [1_000] * 3
    assert (len(bench.requests), len(bench.events)) == (3, 2)


def test_brokers_that_did_not_answer_are_asked_again_soon(bench: Bench) -> None:
    bench.error = BrokerUnavailable("no answer")
    assert bench.limits.bytes_max_of("dead") is None
    bench.limit = "1000"
    bench.now_ms += RETRY_UNAVAILABLE_MS - 1
    assert bench.limits.bytes_max_of("dead") is None
    bench.now_ms += 1
    assert bench.limits.bytes_max_of("dead") == 1_000


def test_a_refusal_holds_for_its_topic_only(bench: Bench) -> None:
    assert bench.limits.bytes_max_of("dead") is None
    bench.limit = "1000"
    assert (bench.limits.bytes_max_of("dead"), bench.limits.bytes_max_of("out")) == (None, 1_000)
