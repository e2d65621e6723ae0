"""A loop of your own: ``python own_loop.py localhost:9092 NAME [streams]``.

The package has the membership; records, state and clients are this program's. It counts words as ``word_count.py``
does, with plain confluent-kafka and dicts for stores. Standbys and warm-ups follow their changelogs, so a task moves
only to a process that has its counts. Start it twice. With ``streams`` it joins a streams group (KIP-1071).
"""

import signal
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as At

from kstreams_assign import (
    Assignment,
    CommitDeferred,
    CommitDue,
    Config,
    GroupMember,
    Lost,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
)

SERVERS, NAME, PROTOCOL = [*sys.argv, "classic"][1:4]
APPLICATION = "own-loop" if PROTOCOL == "classic" else "own-streams-loop"
STANDBYS = 1 if PROTOCOL == "classic" else 0  # in a streams group, the brokers have this setting
CONFIG = Config(APPLICATION, SERVERS, num_standby_replicas=STANDBYS, group_protocol=PROTOCOL)
CLIENT = {"bootstrap.servers": SERVERS, "group.id": CONFIG.application_id, "enable.auto.commit": False}


class Loop:
    """All tasks of this process. A task is restored or followed (``behind``: its changelog), or runs (``inputs``)."""

    def __init__(self, member: GroupMember) -> None:
        self.member = member
        self.producer = Producer({"bootstrap.servers": SERVERS, "partitioner": "murmur2_random"})
        self.changelogs = Consumer({**CLIENT, "auto.offset.reset": "earliest"})
        self.words = Consumer({**CLIENT, "auto.offset.reset": "earliest"})
        self.counts: dict[TaskId, dict[bytes, int]] = {}
        self.position: dict[TaskId, int] = {}
        self.behind: dict[TaskId, TopicPartition] = {}
        self.inputs: dict[TaskId, TopicPartition] = {}
        self.active: Mapping[TaskId, tuple[TopicPartition, ...]] = {}
        self.processed: dict[TopicPartition, int] = {}
        self.lost_output: KafkaError | None = None
        self.may_commit = True

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
            key, value, offset = record.key(), record.value(), record.offset()
            if record.error() is None and key is not None and value is not None and offset is not None:
                task = task_of[partition_of(record)]
                self.counts[task][key] = int(value)
                self.position[task] = offset + 1
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
            word, offset = record.key(), record.offset()
            if record.error() is None and offset is not None:
                task = task_of[partition_of(record)]
                self.processed[self.inputs[task]] = offset + 1
                if word is not None:  # a changelog takes no record without a key
                    self.count(task, word)

    def count(self, task: TaskId, word: bytes) -> None:
        count = self.counts[task][word] = self.counts[task].get(word, 0) + 1
        changelog = self.member.changelogs(task)["counts"]

        def acknowledged(error: KafkaError | None, sent: Message) -> None:
            self.delivered(error, sent)
            offset = sent.offset()
            if error is None and offset is not None:
                self.position[task] = offset + 1

        self.producer.produce(changelog.topic, b"%d" % count, word, changelog.partition, acknowledged)
        self.producer.produce(f"{APPLICATION}-counts", b"%d" % count, word, on_delivery=self.delivered)

    def delivered(self, error: KafkaError | None, _sent: Message) -> None:
        self.lost_output = self.lost_output or error

    def commit(self) -> None:
        if self.processed:
            self.producer.flush()
            if self.lost_output is not None:  # started again, the loop reads the input of the lost output again
                raise SystemExit(f"an output was not delivered: {self.lost_output}")
            with suppress(CommitDeferred):  # the group rebalances: with the next assignment
                self.member.commit(self.processed)
                self.processed = {}

    def drop(self, tasks: set[TaskId]) -> None:
        self.changelogs.incremental_unassign([At(*self.behind.pop(t)) for t in tasks & self.behind.keys()])
        self.words.incremental_unassign([At(*self.inputs.pop(t)) for t in tasks & self.inputs.keys()])
        for task in tasks:
            del self.counts[task], self.position[task]
            self.member.forget(task)


def partition_of(record: Message) -> TopicPartition:
    return TopicPartition(record.topic() or "", record.partition() or 0)  # a consumed record has both


def main() -> None:
    stopping: list[bool] = []
    signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
    topology = [SubtopologyShape((f"{APPLICATION}-words",), (Store("counts"),))]
    with GroupMember(CONFIG, topology, uuid.uuid5(uuid.NAMESPACE_DNS, NAME)) as member:
        loop = Loop(member)
        while not stopping:
            loop.turn()
        loop.commit()


if __name__ == "__main__":
    main()
