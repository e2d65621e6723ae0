"""Count per key by hand: the fastest plain loop over confluent-kafka and RocksDB.

It runs in one process and hands nothing over. For the arguments see ``count.py``. At least once: changelog and outputs
are acknowledged before the offsets are committed, once a second. After a crash it counts that second twice, because it
writes to the store at once; the library does not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rocksdict import Options, Rdict, WriteBatch

BATCH = 5_000
COMMIT_S = 1.0
QUEUE_MAX = 50_000


def main(servers: str, application: str, state: str, source: str, sink: str) -> None:
    """Run until it is killed."""
    changelog = f"{application}-counts-changelog"
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(changelog, 1, 1, config={"cleanup.policy": "compact"})]).values():
        made.result(20)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": application,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.subscribe([source])
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    store = Rdict(state, Options(raw_mode=True))
    due_s, uncommitted = time.monotonic() + COMMIT_S, False
    while True:
        if messages := consumer.consume(BATCH, 0.05):
            count(messages, store, producer, changelog, sink)
            uncommitted = True
        if uncommitted and time.monotonic() >= due_s:
            if producer.flush(30):
                sys.exit("records were not acknowledged")
            consumer.commit(asynchronous=False)
            due_s, uncommitted = time.monotonic() + COMMIT_S, False


def count(messages: Sequence[Message], store: Rdict, producer: Producer, changelog: str, sink: str) -> None:
    """Read the totals of a batch's keys at once, count, and write them at once."""
    keys = [message.key() for message in messages]
    known = list(dict.fromkeys(keys))
    totals = {key: int(total or 0) for key, total in zip(known, store.get(known), strict=True)}
    outputs = []
    for key in keys:
        totals[key] += 1
        outputs.append({"key": key, "value": b"%d" % totals[key]})
    batch = WriteBatch(raw_mode=True)
    for key, total in totals.items():
        batch.put(key, b"%d" % total)
    send(producer, changelog, [{"key": key, "value": b"%d" % total} for key, total in totals.items()])
    send(producer, sink, outputs)
    store.write(batch)


def send(producer: Producer, topic: str, records: list[dict[str, bytes]]) -> None:
    """All of them, or the end. Waits while the queue is full."""
    while len(producer) > QUEUE_MAX:
        producer.poll(0.01)
    if producer.produce_batch(topic, records, on_delivery=check) < len(records):
        sys.exit(f"{topic}: records were not queued")
    producer.poll(0)


def check(error: object, _message: Message) -> None:
    """End where a record was lost."""
    if error is not None:
        sys.exit(f"a record was lost: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
