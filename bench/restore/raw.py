"""What the libraries below can do: read a partition with keys and values, and also write them into RocksDB.

Arguments: servers, topic, folder, mode (``read`` or ``store``). A hand-written loop for one partition, with nothing
that a worker needs around it: no offsets in the store, no other partitions, no progress. Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import starmap

from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as ClientPartition
from rocksdict import Options, Rdict, WriteBatch

BATCH = 2_000
"""Larger ones are slower: they do not fit the processor's cache."""

SETTINGS = {"group.id": "raw", "enable.auto.commit": False, "fetch.queue.backoff.ms": 5}


def main(servers: str, topic: str, folder: str, mode: str) -> None:
    """From the assignment of the partition to its last record."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(folder, options)
    consumer = Consumer({**SETTINGS, "bootstrap.servers": servers})
    _, end = consumer.get_watermark_offsets(ClientPartition(topic, 0), 20)
    began, records = time.monotonic(), 0
    consumer.assign([ClientPartition(topic, 0, 0)])
    while records < end:
        messages = consumer.consume(1, 1.0)
        messages += consumer.consume(BATCH, 0)
        pairs = list(zip(map(Message.key, messages), map(Message.value, messages), strict=True))
        if mode == "store":
            batch = WriteBatch(raw_mode=True)
            list(starmap(batch.put, pairs))
            database.write(batch)
        records += len(pairs)
    print(json.dumps({"records": records, "seconds": time.monotonic() - began}))
    consumer.close()
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
