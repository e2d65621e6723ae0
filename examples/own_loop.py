"""A loop of your own: ``python own_loop.py localhost:9092 NAME``.

The package has the membership; records, state and clients are this program's. It counts words as ``word_count.py``
does, with plain confluent-kafka and dicts for stores. Standbys and warm-ups follow their changelogs, so a task moves
only to a process that has its counts. Start it twice.
"""

import signal
import sys
import uuid
from contextlib import suppress

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At

from kstreams_assign import (
    Assignment,
    CommitDue,
    Config,
    GroupMember,
    Lost,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
)
from kstreams_assign.errors import CommitDeferred

SERVERS, NAME = sys.argv[1:3]
CONFIG = Config(application_id="own-loop", bootstrap_servers=SERVERS, num_standby_replicas=1)
CLIENT = {"bootstrap.servers": SERVERS, "group.id": CONFIG.application_id, "enable.auto.commit": False}


class Loop:
    """Everything this process has. A task is restored or followed (``behind``), or at work (``inputs``)."""

    def __init__(self, member: GroupMember) -> None:
        self.member = member
        self.producer = Producer({"bootstrap.servers": SERVERS, "partitioner": "murmur2_random"})
        self.changelogs = Consumer({**CLIENT, "auto.offset.reset": "earliest"})
        self.words = Consumer({**CLIENT, "auto.offset.reset": "earliest"})
        self.counts, self.position, self.behind, self.inputs, self.active = {}, {}, {}, {}, {}
        self.processed, self.may_commit = {}, True

    def turn(self) -> None:
        event = self.member.poll(0)
        if isinstance(event, CommitDue):
            self.commit()
            self.may_commit = False
            self.member.ready_to_join()
        elif isinstance(event, Assignment):
            self.may_commit = True
            self.adopt(event)
        elif isinstance(event, Lost):
            self.processed.clear()
            self.drop(set(self.counts))
        self.follow()
        self.work()
        if self.may_commit:
            self.commit()

    def adopt(self, new: Assignment) -> None:
        self.words.incremental_unassign([At(*self.inputs.pop(t)) for t in new.revoked & self.inputs.keys()])
        self.commit()
        self.drop(self.counts.keys() - new.active.keys() - new.standby - new.warmup)
        self.active = new.active
        for task in new.revoked & self.counts.keys():  # a standby from now on
            self.start_following(task)
        for task in (new.active.keys() | new.standby | new.warmup) - self.counts.keys():
            self.counts[task], self.position[task] = {}, 0
            self.start_following(task)
        self.member.let_go()
        print("generation", new.generation, "active", *sorted(map(str, self.active)), flush=True)

    def start_following(self, task: TaskId) -> None:
        changelog = self.behind[task] = self.member.changelogs(task)["counts"]
        self.member.at(task, {changelog: self.position[task]})
        self.changelogs.incremental_assign([At(*changelog, self.position[task])])

    def follow(self) -> None:
        task_of = {changelog: task for task, changelog in self.behind.items()}
        for record in self.changelogs.consume(1000, 0):
            if record.error() is None:
                task = task_of[record.topic(), record.partition()]
                self.counts[task][record.key()] = int(record.value())
                self.position[task] = record.offset() + 1
        for task, changelog in list(self.behind.items()):
            self.member.at(task, {changelog: self.position[task]})
            if task in self.active and self.position[task] >= self.changelogs.get_watermark_offsets(At(*changelog))[1]:
                self.run(task, changelog)

    def run(self, task: TaskId, changelog: TopicPartition) -> None:
        self.changelogs.incremental_unassign([At(*changelog)])
        del self.behind[task]
        (self.inputs[task],) = self.active[task]
        start = self.member.committed([self.inputs[task]]).get(self.inputs[task], 0)
        self.words.incremental_assign([At(*self.inputs[task], start)])
        self.member.running(task)

    def work(self) -> None:
        task_of = {partition: task for task, partition in self.inputs.items()}
        for record in self.words.consume(1000, 0.05):
            if record.error() is None:
                task = task_of[record.topic(), record.partition()]
                self.processed[self.inputs[task]] = record.offset() + 1
                if record.key() is None:  # a changelog takes no record without a key
                    continue
                count = self.counts[task][record.key()] = self.counts[task].get(record.key(), 0) + 1
                changelog = self.member.changelogs(task)["counts"]
                on_delivery = lambda _, sent, task=task: self.position.update({task: sent.offset() + 1})  # noqa: E731
                self.producer.produce(changelog.topic, b"%d" % count, record.key(), changelog.partition, on_delivery)
                self.producer.produce("own-loop-counts", b"%d" % count, record.key())

    def commit(self) -> None:
        if self.processed:
            self.producer.flush()
            with suppress(CommitDeferred):  # the group rebalances: with the next assignment
                self.member.commit(self.processed)
                self.processed = {}

    def drop(self, tasks: set[TaskId]) -> None:
        self.changelogs.incremental_unassign([At(*self.behind.pop(t)) for t in tasks & self.behind.keys()])
        self.words.incremental_unassign([At(*self.inputs.pop(t)) for t in tasks & self.inputs.keys()])
        for task in tasks:
            del self.counts[task], self.position[task]
            self.member.forget(task)


stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
topology = [SubtopologyShape(("own-loop-words",), (Store("counts"),))]
with GroupMember(CONFIG, topology, uuid.uuid5(uuid.NAMESPACE_DNS, NAME)) as member:
    loop = Loop(member)
    while not stopping:
        loop.turn()
    loop.commit()
