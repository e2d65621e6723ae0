"""What a leader does where brokers answer late, wrongly or not at all about source topics."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from uuid import UUID

import pytest

from kstreams_assign import Config
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.events import DecisionEvent, Event, LookupFailedEvent
from kstreams_assign.group.values import ErrorCode
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TopicPartition, TopologyShape
from kstreams_assign.worker import leading
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading, assign_config
from tests.group.little_group import LittleGroup, shape

TOPIC, PARTITIONS = "orders", 4


class Admin:
    """``answers``: what is said of the source topic one after the other, and then for ever; None: nothing."""

    def __init__(self) -> None:
        self.answers: list[Mapping[str, int] | None] = []
        self.asked = 0

    def partition_counts(self, topics: Iterable[str], _timeout_s: float) -> Mapping[str, int]:
        if TOPIC not in topics:
            return dict.fromkeys(topics, PARTITIONS)
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise BrokerUnavailable("describe topics: no answer")
        return answer

    def end_offsets(self, partitions: Iterable[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def __getattr__(self, name: str) -> object:
        def refuse(*_: object, **__: object) -> object:
            raise BrokerUnavailable(f"{name}: no answer")

        return refuse


class Leader:
    """A leader of a group that works, and its events."""

    def __init__(self) -> None:
        self.admin = Admin()
        self.events: list[Event] = []
        config = Config(application_id="app", bootstrap_servers="localhost:1")
        log = EventLog("1", self.events.append)
        self.leading = Leading(config, shape(), UUID(int=1), self.admin, self.admin, log)  # type: ignore[arg-type]
        self.group = LittleGroup(shape(), {TOPIC: PARTITIONS})
        self.members = [self.group.add(1), self.group.add(2)]
        self.group.settle()

    def lead(self, *, seen: int) -> int:
        """Decide, where the client's metadata has so many partitions; return how many were given."""
        joined = [member.joins(self.group.dialect) for member in self.members]
        answers = self.leading.lead(joined, {TOPIC: seen}, {})
        return sum(len(answer.partitions) for answer in answers.values())

    def errors(self) -> list[int]:
        return [event.error for event in self.events if isinstance(event, DecisionEvent)]


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_topic_that_the_broker_does_not_know_yet_is_looked_for_again(leader: Leader) -> None:
    leader.admin.answers = [{}, {}, {TOPIC: PARTITIONS}]
    assert leader.lead(seen=0) == PARTITIONS
    assert (leader.admin.asked, leader.errors()) == (3, [0])


def test_a_topic_that_is_not_there_is_refused_in_the_end(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "LEARN_S", 0.25)
    leader.admin.answers = [{}]
    assert leader.lead(seen=0) == 0
    assert leader.admin.asked > 1
    assert leader.errors() != [0]


def test_a_group_that_works_is_not_refused_because_a_look_up_fails(leader: Leader) -> None:
    assert leader.lead(seen=PARTITIONS) == PARTITIONS
    leader.admin.answers = [None]
    assert leader.lead(seen=0) == PARTITIONS
    assert "source topics" in [event.what for event in leader.events if isinstance(event, LookupFailedEvent)]
    assert leader.errors() == [0, 0]


def test_the_first_leader_of_a_group_refuses_if_a_look_up_fails(leader: Leader) -> None:
    leader.admin.answers = [None]
    assert leader.lead(seen=0) == 0
    assert leader.errors() != [0]


class RackAdmin(Admin):
    """Answers everything, and keeps the topics whose racks it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.racks_of: list[str] = []

    def partition_counts(self, topics: Iterable[str], _timeout_s: float) -> Mapping[str, int]:
        return dict.fromkeys(topics, PARTITIONS)

    def create_topics(self, *_: object, **__: object) -> None:
        """Every topic exists."""

    def read(self, partitions: Iterable[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def topic_setting(self, *_: object) -> None:
        """The broker has no setting of its own."""

    def replica_racks(self, topics: Iterable[str], _timeout_s: float) -> Mapping[TopicPartition, frozenset[str]]:
        self.racks_of += topics
        return {
            TopicPartition(topic, partition): frozenset({"r1"})
            for topic in self.racks_of
            for partition in range(PARTITIONS)
        }


@pytest.mark.parametrize(
    ("standbys", "topics"), [(0, ["orders-eu"]), (1, ["orders-eu", "app-totals-changelog"])], ids=["0", "1"]
)
def test_with_a_source_pattern_the_racks_of_the_topics_that_match_are_looked_up(
    standbys: int, topics: list[str]
) -> None:
    admin, events = RackAdmin(), list[Event]()
    config = Config(
        application_id="app",
        bootstrap_servers="localhost:1",
        assignor="high_availability",
        client_rack="r1",
        rack_aware_assignment_strategy="min_traffic",
        num_standby_replicas=standbys,
    )
    pattern = TopologyShape((SubtopologyShape((), (Store("totals"),), pattern="orders-.*"),))
    log = EventLog("1", events.append)
    lead = Leading(config, pattern, UUID(int=1), admin, admin, log)  # type: ignore[arg-type]
    little = LittleGroup(TopologyShape((SubtopologyShape(("orders-eu",), (Store("totals"),)),)), {})
    members = [little.add(1), little.add(2)]
    for member in members:
        member.rack = "r1"
    answers = lead.lead([member.joins(little.dialect) for member in members], {"orders-eu": PARTITIONS}, {})
    assert sum(len(answer.partitions) for answer in answers.values()) == PARTITIONS
    assert admin.racks_of == topics
    assert [event.warnings for event in events if isinstance(event, DecisionEvent)] == [()]


class KeepingAdmin(RackAdmin):
    """Has the topics that were created and not deleted; counts how often topics were described."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = {TOPIC: PARTITIONS}
        self.described = 0

    def partition_counts(self, topics: Iterable[str], _timeout_s: float) -> Mapping[str, int]:
        self.described += 1
        return {topic: self.topics[topic] for topic in topics if topic in self.topics}

    def create_topics(self, topics: Mapping[str, int], timeout_s: float, **_: object) -> None:
        there = self.partition_counts(topics, timeout_s)
        self.topics.update({topic: count for topic, count in topics.items() if topic not in there})


def test_a_repartition_topic_that_was_deleted_is_created_again_by_the_next_decision() -> None:
    repartition = "app-words-repartition"
    two_steps = TopologyShape(
        (
            SubtopologyShape((TOPIC,), sinks=(repartition,)),
            SubtopologyShape((repartition,), (Store("totals"),), (RepartitionTopic(repartition),)),
        )
    )
    admin = KeepingAdmin()
    config = Config(application_id="app", bootstrap_servers="localhost:1")
    lead = Leading(config, two_steps, UUID(int=1), admin, admin, EventLog("1", list[Event]().append))  # type: ignore[arg-type]
    little = LittleGroup(two_steps, {TOPIC: PARTITIONS})
    members = [little.add(1)]

    def decide() -> int:
        """Return how often topics were described for it."""
        before = admin.described
        lead.lead([member.joins(little.dialect) for member in members], {TOPIC: PARTITIONS}, {})
        return admin.described - before

    decide()
    assert admin.topics[repartition] == PARTITIONS
    assert decide() == 1, "nothing has changed"
    del admin.topics[repartition]
    assert decide() == 1
    assert admin.topics[repartition] == PARTITIONS


def test_a_list_of_tag_keys_is_as_good_as_a_tuple() -> None:
    settings = Config(
        application_id="app",
        bootstrap_servers="localhost:1",
        client_tags={"zone": "a"},
        rack_aware_assignment_tags=["zone"],  # type: ignore[arg-type]
    )
    assert assign_config(settings).rack_aware_assignment_tags == ("zone",)


def test_a_table_with_too_few_partitions_is_refused_with_the_reason() -> None:
    table = TopologyShape((SubtopologyShape(("customers", "orders"), (Store("customers", source="customers"),)),))
    counts, events = {"customers": 2, "orders": 4}, list[Event]()
    admin = RackAdmin()
    config = Config(application_id="app", bootstrap_servers="localhost:1")
    lead = Leading(config, table, UUID(int=1), admin, admin, EventLog("1", events.append))  # type: ignore[arg-type]
    little = LittleGroup(table, counts)
    answers = lead.lead([little.add(1).joins(little.dialect)], counts, {})
    assert [answer.partitions for answer in answers.values()] == [()]
    assert "too few partitions: customers has 2, orders has 4" in str(lead.refused)
    assert [event.error for event in events if isinstance(event, DecisionEvent)] == [ErrorCode.ASSIGNMENT_ERROR]


@pytest.mark.parametrize(("seconds", "warned"), [(22.0, False), (23.0, True)])
def test_a_decision_that_takes_most_of_a_session_is_warned_of(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, seconds: float, warned: bool
) -> None:
    leader.admin.answers = [{TOPIC: PARTITIONS}]
    now_s = itertools.count(0.0, seconds)  # the clock is read before and behind the decision
    monkeypatch.setattr(leading, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    monkeypatch.setattr(leading, "_left", lambda _deadline: 1.0)
    leader.lead(seen=PARTITIONS)
    (event,) = (event for event in leader.events if isinstance(event, DecisionEvent))
    named = [warning for warning in event.warnings if f"took {seconds} s" in warning]
    assert len(named) == warned
    assert all("session_timeout_ms = 45000" in warning for warning in named)
