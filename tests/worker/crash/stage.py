"""Topics, state directories and processes of one run on a real broker, and waiting for their outcomes."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError

from kstreams_assign import TopicPartition as Partition
from kstreams_assign.adapters.rocksdb import open_task_stores
from tests.worker.crash import app
from tests.worker.crash.points import Point, Recording
from tests.worker.crash.reading import WAIT_S, Line, end_offsets, read_topics
from tests.worker.crash.victim import CLOSE, RUNNING, Part, main

VICTIM, HEIR, SUCCESSOR = "victim", "heir", "successor"
PREDECESSOR = "predecessor"
LIMIT_S = 120.0
"""Enough for a machine that does ten other things; a play takes some seconds when all is well."""
LOOK_S = 0.05
FIRST_S = 3.0
SEEDED = 20
"""Inputs of each partition that are applied and committed before the first process starts."""
WAITING = 24
"""Inputs of each partition that wait for it."""
AHEAD_BY = 5
EXACT = "exactly_once_v2"
_COORDINATOR_AWAY = (NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError)

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.worker.crash.victim"])
_exits = threading.Lock()
"""A start looks after all processes that have ended, and an exit status can be read only once."""


class Stuck(AssertionError):
    """An expected event did not happen in time."""


class Cluster:
    """The broker, used by several threads."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})
        self._groups = KafkaAdminClient(bootstrap_servers=servers.split(","))
        self._groups_lock = threading.Lock()

    def close(self) -> None:
        self._groups.close()

    def create(self, applications: Iterable[str], *, changelogs: bool) -> None:
        """Create all topics of these applications, in one request."""
        names = [(name, {}) for application in applications for name in (application, app.answers_topic(application))]
        if changelogs:
            names += [(app.changelog_topic(application), {"cleanup.policy": "compact"}) for application in applications]
        new = [NewTopic(name, app.PARTITIONS, 1, config=config) for name, config in names]
        for made in self.admin.create_topics(new, operation_timeout=WAIT_S).values():
            made.result(WAIT_S)

    def delete(self, applications: Iterable[str]) -> None:
        """Delete the topics of these applications: with thousands of partitions a broker stands still at times."""
        names = [
            name
            for each in applications
            for name in (each, app.answers_topic(each), app.changelog_topic(each), app.between_topic(each))
        ]
        deleted = self.admin.delete_topics(names, operation_timeout=WAIT_S).values() if names else ()
        for gone in deleted:
            with suppress(KafkaException):  # not every application has all of them
                gone.result(WAIT_S)

    def committed_offsets(self, group: str, topic: str | None = None) -> dict[int, int]:
        """Return the group's next offsets in a topic (by default the input, named as the group); 0 where it has none.

        Not by ``AdminClient``: librdkafka 2.16 has a segmentation fault where a coordinator refuses a client that has
        no group, or its connection is given up.
        """

        def look() -> Mapping[Any, Any] | None:
            with self._groups_lock, suppress(*_COORDINATOR_AWAY):
                offsets: Mapping[Any, Any] = self._groups.list_group_offsets(group)[group]
                return offsets
            return None

        committed = until(look, f"{group} has a coordinator")
        next_offsets = {at.partition: value.offset for at, value in committed.items() if at.topic == (topic or group)}
        return {partition: max(0, next_offsets.get(partition, 0)) for partition in range(app.PARTITIONS)}

    def remove_member(self, group: str, client: str) -> None:
        """Remove a dead member at once, as the broker does when its session ends."""
        with self._groups_lock:
            members = self._groups.describe_groups([group])[group]["members"]
            gone = [
                MemberToRemove(member_id=member["member_id"]) for member in members if member["client_id"] == client
            ]
            if gone:
                self._groups.remove_group_members(group, gone)


@dataclass(slots=True)
class Actor:
    """A process of a run."""

    role: str
    process: Any
    pipe: Connection
    log: Path

    def said(self, phase: str) -> bool:
        """Whether the process reports this phase before it ends, within the limit."""
        deadline = time.monotonic() + LIMIT_S
        with suppress(EOFError, ConnectionResetError):
            while self.pipe.poll(max(0.0, deadline - time.monotonic())):
                if self.pipe.recv() == phase:
                    return True
        if self.process.is_alive() and time.monotonic() >= deadline:
            raise Stuck(f"{self.role} did not come to {phase!r} in {LIMIT_S:.0f} s")
        return False

    def outlives(self, other: Actor, word: str) -> bool:
        """Wait until ``other`` reports ``word``; False if this process ends first."""
        if not wait([self.process.sentinel, other.pipe, other.process.sentinel], LIMIT_S):
            raise Stuck(f"{other.role} did not come to {word!r} in {LIMIT_S:.0f} s")
        return self.exit_code is None and other.said(word)

    def recording(self) -> Recording:
        """Return the recording that the process sends at its end."""
        recording: Recording = {}
        with suppress(EOFError):
            while not recording:
                message = self.pipe.recv()
                recording = message if isinstance(message, dict) else {}
        return recording

    def ended(self) -> int:
        """Return its exit status; negative for the signal that killed it."""
        wait([self.process.sentinel], LIMIT_S)
        code = self.exit_code
        if code is None:
            raise Stuck(f"{self.role} did not end in {LIMIT_S:.0f} s")
        return code

    @property
    def exit_code(self) -> int | None:
        with _exits:
            code: int | None = self.process.exitcode
            return code

    def ask_to_close(self) -> None:
        with suppress(BrokenPipeError):
            self.pipe.send(CLOSE)


class Stage:
    """One application, from its first records to its last check."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        folder: Path,
        guarantee: str,
        *,
        seeded: int,
        standbys: int,
        heartbeat_ms: int,
        purges: bool,
    ) -> None:
        self.cluster, self.name, self.folder, self.seeded = cluster, name, folder, seeded
        self._guarantee = guarantee
        self._standbys = standbys
        self._heartbeat_ms = heartbeat_ms
        self._purges = purges
        self.actors: list[Actor] = []
        self.floor: Mapping[int, int] | None = None
        """Where the group stood when it first dropped work that was not committed, if that was before the end."""
        folder.mkdir(parents=True)

    def state_of(self, role: str) -> Path:
        return self.folder / f"state-{role}"

    def config(self, role: str, state: Path) -> Mapping[str, Any]:
        return {
            "application_id": self.name,
            "bootstrap_servers": self.cluster.servers,
            "state_dir": str(state),
            "client": {"client.id": role},
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": self._heartbeat_ms,
            "commit_interval_ms": 1,
            "num_standby_replicas": self._standbys,
            "early_probing": False,
            "repartition_purge_interval_ms": 0,
            "processing_guarantee": self._guarantee,
        }

    def start(self, role: str, state: Path, **part: Any) -> Actor:
        ours, theirs = _forks.Pipe()
        log = self.folder / f"{role}.log"
        process = _forks.Process(
            target=main,
            args=(Part(self.config(role, state), str(log), purges=self._purges, **part), theirs),
            daemon=True,
        )
        with _exits:
            process.start()
        theirs.close()
        actor = Actor(role, process, ours, log)
        self.actors.append(actor)
        return actor

    # --- before ---------------------------------------------------------------

    def seed(self) -> None:
        """Set up an application that has worked: inputs, changelog, answers and offsets; and more inputs wait."""
        # The broker may not know a new topic at once, so look again soon.
        settings = {"linger.ms": 5, "topic.metadata.refresh.fast.interval.ms": 50}
        producer = Producer({"bootstrap.servers": self.cluster.servers, **settings})
        self._produce(producer, self.seeded + WAITING)
        for partition in range(app.PARTITIONS):
            for key, value in changelog_of(self.seeded):
                producer.produce(app.changelog_topic(self.name), value, key, partition)
        assert not producer.flush(WAIT_S), f"the inputs of {self.name} could not be sent in {WAIT_S:.0f} s"
        if self.seeded:
            until(self._offsets_set, "the group has offsets")

    def _produce(self, producer: Producer, count: int) -> None:
        for partition in range(app.PARTITIONS):
            for offset in range(count):
                producer.produce(self.name, b"", app.key_of(offset), partition)

    def killed_at_work(self) -> None:
        """Kill a process that worked before the victim: the group still waits for its member, and more inputs wait."""
        before = self.start(PREDECESSOR, self.state_of(VICTIM))
        assert before.said(RUNNING), f"{PREDECESSOR} never ran: {last_line(before.log)}"
        before.process.kill()
        before.ended()
        self.floor = self.cluster.committed_offsets(self.name)
        producer = Producer({"bootstrap.servers": self.cluster.servers, "linger.ms": 5})
        self._produce(producer, WAITING)
        assert not producer.flush(WAIT_S), f"more inputs of {self.name} could not be sent in {WAIT_S:.0f} s"

    def _offsets_set(self) -> bool | None:
        """Commit the offsets; None as long as a broker without groups cannot do it."""
        places = [TopicPartition(self.name, partition, self.seeded) for partition in range(app.PARTITIONS)]
        asked = [ConsumerGroupTopicPartitions(self.name, places)]
        (answer,) = self.cluster.admin.alter_consumer_group_offsets(asked, request_timeout=FIRST_S).values()
        with suppress(KafkaException, TimeoutError):
            return None if any(place.error for place in answer.result(WAIT_S).topic_partitions) else True
        return None

    def store_at(self, partition: int, count: int, *, says: int | None = None) -> Path:
        """Make a task folder with so many changelog records; ``says``: the offset that it records, if another."""
        path = self.state_of(VICTIM) / self.name / f"0_{partition}"
        stores = open_task_stores(path, [app.STORE])
        place = Partition(app.changelog_topic(self.name), partition)
        stores.write({app.STORE: changelog_of(count)}, {place: count if says is None else says})
        stores.close()
        return path

    # --- after ----------------------------------------------------------------

    def until_done(self, watched: Actor | None = None) -> None:
        """Wait until every input is committed, or until the process that is watched has ended."""

        def done() -> bool | None:
            self._all_alive()
            if watched is not None and watched.exit_code is not None:
                return True
            committed = self.cluster.committed_offsets(self.name)
            if committed != end_offsets(self.cluster.admin, self.name) or (self._purges and self._between()):
                return None
            return True

        until(done, "every input is committed")

    def _between(self) -> list[Line]:
        """Return the records between the inputs and their answers."""
        topic = app.between_topic(self.name)
        lines = read_topics(self.cluster.servers, [topic], committed=self._guarantee == EXACT)[topic]
        committed = self.cluster.committed_offsets(self.name, topic)
        return [line for line in lines if line.offset >= committed[line.partition]]

    def _all_alive(self) -> None:
        for actor in self.actors:
            code = actor.exit_code
            assert code in (None, -9) or actor.role == VICTIM, f"{actor.role} ended with {code}: {last_line(actor.log)}"

    def close_all(self) -> list[str]:
        """End the processes that still run; return what was wrong with their ends."""
        living = [actor for actor in self.actors if actor.exit_code is None]
        for actor in living:
            actor.ask_to_close()
        return [
            f"{actor.role} ended with {code}: {last_line(actor.log)}"
            for actor in living
            if (code := actor.ended()) != 0
        ]

    def end(self) -> None:
        """Kill the processes that are left."""
        for actor in self.actors:
            if actor.exit_code is None:
                actor.process.kill()
                actor.ended()
            actor.pipe.close()


def changelog_of(count: int) -> list[tuple[bytes, bytes]]:
    """Return the changelog records of the first so many inputs of a partition."""
    state: dict[bytes, bytes] = {}
    records: list[tuple[bytes, bytes]] = []
    for offset in range(count):
        key = app.key_of(offset)
        state[key] = app.applied_to(state.get(key), offset)
        records.append((key, state[key]))
    return records


def until(look: Callable[[], Any], what: str) -> Any:
    """Wait until ``look`` returns an answer."""
    deadline, pause = time.monotonic() + LIMIT_S, threading.Event()
    while (answer := look()) is None:
        if time.monotonic() > deadline:
            raise Stuck(f"not in {LIMIT_S:.0f} s: {what}")
        pause.wait(LOOK_S)
    return answer


def last_line(log: Path) -> str:
    return (log.read_text(encoding="utf-8").strip().splitlines() or ["(no word)"])[-1] if log.exists() else "(no log)"


@contextmanager
def cluster_at(servers: str) -> Iterator[Cluster]:
    cluster = Cluster(servers)
    try:
        yield cluster
    finally:
        cluster.close()


__all__ = ["Actor", "Cluster", "Point", "Stage", "Stuck", "cluster_at"]
