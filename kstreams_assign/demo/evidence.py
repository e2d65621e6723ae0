"""What a run leaves behind, read back: the output topic as it grows, the changelogs and the stores on disk at the end.

What must not live here: judging it (``check``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, InputConsumer
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.demo.app import STORE, Account, Row, read_account, read_rows
from kstreams_assign.demo.orders import read_key
from kstreams_assign.model import TopicPartition, changelog_topic

READ_WITHIN_S = 30.0
_POLL_RECORDS_MAX = 20_000
_POLL_S = 0.1


class Output:
    """The output topic from its start. ``reached``: input partition -> the offset after the last row seen."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, *, group_id: str) -> None:
        self._consumer = InputConsumer(bootstrap_servers, group_id=group_id)
        self._consumer.add({TopicPartition(topic, partition): 0 for partition in range(partitions)})
        self._rows: list[bytes] = []
        self.reached: dict[int, int] = {}

    def follow(self, timeout_s: float) -> None:
        """Take what has arrived."""
        for records in self._consumer.poll(_POLL_RECORDS_MAX, timeout_s).values():
            values = [record.value for record in records if record.value is not None]
            for row in read_rows(values):
                self.reached[row.partition] = max(self.reached.get(row.partition, 0), row.offset + 1)
            self._rows.extend(values)

    def rows(self) -> list[Row]:
        """All rows so far, in the order of their partitions' logs."""
        return read_rows(self._rows)

    def close(self) -> None:
        self._consumer.close()


def changelog_lengths(admin: ClusterAdmin, application_id: str, partitions: int) -> dict[int, int]:
    """Partition -> records that a new copy would have to read; nothing before the leader has made the topic."""
    bounds = admin.bounds(_changelogs(application_id, partitions), READ_WITHIN_S)
    return {at.partition: end - start for at, (start, end) in bounds.items()}


def read_changelogs(bootstrap_servers: str, application_id: str, partitions: int) -> dict[int, Account]:
    """Customer -> account, as a store restored now from the changelogs' last values would hold them."""
    admin = ClusterAdmin(bootstrap_servers)
    reader = ConfluentChangelogReader(bootstrap_servers, group_id=application_id, admin=admin)
    try:
        bounds = admin.bounds(_changelogs(application_id, partitions), READ_WITHIN_S)
        ends = {at: end for at, (_, end) in bounds.items() if end}
        reader.add(dict.fromkeys(ends, 0))
        values = _last_values(reader, ends)
    finally:
        reader.close()
    return {read_key(key): read_account(value) for key, value in values.items() if value is not None}


def _last_values(reader: ConfluentChangelogReader, ends: Mapping[TopicPartition, int]) -> dict[bytes, bytes | None]:
    values: dict[bytes, bytes | None] = {}
    missing = set(ends)
    while missing:
        for batch in reader.poll(_POLL_S):
            values.update(batch.writes)
            if batch.next_offset >= ends[batch.partition]:
                missing.discard(batch.partition)
    return values


def read_stores(task_folders: Iterable[Path]) -> dict[int, Account]:
    """Customer -> account in the stores of these tasks, which no process may have open."""
    accounts: dict[int, Account] = {}
    for folder in task_folders:
        stores = open_task_stores(folder, [STORE])
        try:
            accounts.update((read_key(key), read_account(value)) for key, value in stores.range(STORE))
        finally:
            stores.close()
    return accounts


def _changelogs(application_id: str, partitions: int) -> list[TopicPartition]:
    topic = changelog_topic(application_id, STORE)
    return [TopicPartition(topic, partition) for partition in range(partitions)]
