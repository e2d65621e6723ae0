"""The global tables of the test driver: in memory, and always at the end of their topics.

What must not live here: how a table is read (``worker.global_views``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stamped import stamped
from kstreams_assign.tasks.stores import Write
from kstreams_assign.testing.broker import MemoryBroker
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker.global_thread import TableReaders

_RECORDS_MAX = 10_000


class MemoryTables:
    """Keeps the tables from the topics of the broker, which must exist."""

    def __init__(self, tables: Sequence[GlobalTable], broker: MemoryBroker) -> None:
        self._broker = broker
        readers = TableReaders(tables)
        self.views = readers.views
        self._stores = {table: MemoryStores([table.name]) for table in tables}
        counts = broker.partition_counts()
        self._next = {
            (table, TopicPartition(table.topic, number)): 0 for table in tables for number in range(counts[table.topic])
        }
        for table, stores in self._stores.items():
            readers.reads[table.name].allow(stores)

    def catch_up(self) -> None:
        """Apply what can be read of the topics: also what the topology itself has written and committed."""
        for (table, partition), offset in self._next.items():
            while records := self._broker.records(partition, offset, _RECORDS_MAX):
                offset = records[-1].offset + 1  # noqa: PLW2901  # a page after the other
                self._next[table, partition] = offset
                self._stores[table].write({table.name: _writes(table, records)}, {partition: offset})


def _writes(table: GlobalTable, records: Iterable[Record]) -> list[Write]:
    """Return the writes of records; those without a key are passed over, as a worker does."""
    return [
        (
            record.key,
            stamped(record.value, record.timestamp_ms)
            if table.timestamped and record.value is not None
            else record.value,
        )
        for record in records
        if record.key is not None
    ]
