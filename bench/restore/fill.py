"""Write an application's changelog: ``python -m bench.restore.fill SERVERS RECORDS PARTITIONS VALUE_BYTES ALIKE``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer

PRIME = 7_919
POOL_BYTES = 1 << 20
KEY = b"key-%010d"
KEY_BYTES = len(KEY % 0)


@dataclass(frozen=True, slots=True)
class Changelog:
    """An application's changelog: how many records, partitions, and bytes a value.

    Where values are ``alike``, they differ in 8 bytes only, and RocksDB compresses them.
    """

    records: int
    partitions: int = 1
    value_bytes: int = 100
    alike: bool = True

    @property
    def application(self) -> str:
        return f"restore-{self.records}-{self.partitions}-{self.value_bytes}"

    @property
    def source(self) -> str:
        return f"{self.application}-in"

    @property
    def topic(self) -> str:
        return f"{self.application}-totals-changelog"

    def __str__(self) -> str:
        size = "" if self.value_bytes == 100 else f" of {self.value_bytes:,} bytes"
        return f"{self.records:,} records{size}, {self.partitions} partition{'s' * (self.partitions > 1)}"


def produce(servers: str, changelog: Changelog) -> None:
    """Write the changelog, keys in no order, and make the empty source."""
    topics = {changelog.source: changelog.partitions, changelog.topic: changelog.partitions}
    ClusterAdmin(servers).create_topics(topics, 20, configs={changelog.topic: {"cleanup.policy": "compact"}})
    producer = RecordProducer(servers, delivery_timeout_ms=600_000)
    rest = changelog.value_bytes - 8
    pool = os.urandom(rest if changelog.alike else rest + POOL_BYTES)
    for number in range(changelog.records):
        key = KEY % (number * PRIME % changelog.records)
        at = 0 if changelog.alike else number * PRIME % POOL_BYTES
        value = number.to_bytes(8, "big") + pool[at : at + rest]
        producer.produce(changelog.topic, number % changelog.partitions, key, value)
    producer.flush(600)
    producer.close()


if __name__ == "__main__":
    produce(sys.argv[1], Changelog(*map(int, sys.argv[2:])))
