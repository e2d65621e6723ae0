"""An asyncio loop of your own: ``python own_asyncio_loop.py localhost:9092 NAME``. One coroutine a task, stateless.

Each record of ``shout-in`` is written to ``shout-out`` in capitals. The membership has its own thread, so heartbeats
never wait for the loop, which awaits the events of the membership.
"""

import asyncio
import signal
import sys
import uuid
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as At

from kstreams_assign import (
    Assignment,
    CommitDeferred,
    CommitDue,
    Config,
    GroupMember,
    SubtopologyShape,
    TaskId,
    TopicPartition,
)

SERVERS, NAME = sys.argv[1:3]
CONFIG = Config(application_id="shout", bootstrap_servers=SERVERS)
CLIENT = {"bootstrap.servers": SERVERS, "group.id": CONFIG.application_id, "auto.offset.reset": "earliest"}


class Shouting:
    def __init__(self, member: GroupMember) -> None:
        self.member = member
        self.producer = Producer({"bootstrap.servers": SERVERS})
        self.tasks: dict[TaskId, asyncio.Task[None]] = {}
        self.processed: dict[TopicPartition, int] = {}
        self.lost_output: KafkaError | None = None

    async def listen(self) -> None:
        """Follow the group until this coroutine is cancelled."""
        while True:
            event = await asyncio.to_thread(self.member.poll, 0.2)
            await self.commit()
            if isinstance(event, CommitDue):
                self.member.ready_to_join()
            elif isinstance(event, Assignment):
                for task in self.tasks.keys() - event.active.keys():
                    await self.end(task)
                await self.commit()
                for task in event.active.keys() - self.tasks.keys():
                    (source,) = event.active[task]
                    self.tasks[task] = asyncio.create_task(self.shout(source))
                self.member.let_go()
                print("generation", event.generation, "active", *sorted(map(str, self.tasks)), flush=True)
            elif event is not None:  # lost: it runs elsewhere
                self.processed.clear()
                for task in list(self.tasks):
                    await self.end(task)

    async def shout(self, source: TopicPartition) -> None:
        consumer = Consumer({**CLIENT, "enable.auto.commit": False})
        committed = await asyncio.to_thread(self.member.committed, [source])
        consumer.assign([At(*source, committed.get(source, 0))])
        try:
            while True:
                for record in await asyncio.to_thread(consumer.consume, 500, 0.1):
                    self.work(source, record)
        finally:
            consumer.close()

    def work(self, source: TopicPartition, record: Message) -> None:
        value, offset = record.value(), record.offset()
        if record.error() is None and offset is not None:
            self.producer.produce("shout-out", value and value.upper(), record.key(), on_delivery=self.delivered)
            self.processed[source] = offset + 1

    def delivered(self, error: KafkaError | None, _sent: Message) -> None:
        self.lost_output = self.lost_output or error

    async def end(self, task: TaskId) -> None:
        coroutine = self.tasks.pop(task)
        coroutine.cancel()
        with suppress(asyncio.CancelledError):
            await coroutine

    async def commit(self) -> None:
        offsets = dict(self.processed)  # during the flush, the tasks process and produce more
        if offsets:
            await asyncio.to_thread(self.producer.flush)
            if self.lost_output is not None:  # started again, the loop reads the input of the lost output again
                raise KafkaException(self.lost_output)
            with suppress(CommitDeferred):  # the group rebalances: with the next assignment
                await asyncio.to_thread(self.member.commit, offsets)
                self.processed = {p: done for p, done in self.processed.items() if done != offsets.get(p)}


async def main() -> None:
    topology = [SubtopologyShape(("shout-in",))]
    with GroupMember(CONFIG, topology, uuid.uuid5(uuid.NAMESPACE_DNS, NAME)) as member:
        shouting = Shouting(member)
        listening = asyncio.create_task(shouting.listen())
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, listening.cancel)
        with suppress(asyncio.CancelledError):
            await listening
        for task in list(shouting.tasks):
            await shouting.end(task)
        await shouting.commit()


if __name__ == "__main__":
    asyncio.run(main())
