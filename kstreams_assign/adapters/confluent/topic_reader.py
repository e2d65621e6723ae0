"""The records of whole topics for a person who looks at them: from given offsets to each partition's end, or on and on.

What must not live here: how a record is shown. The idea: a partition has ended when librdkafka says so, not when a
record with the last offset came, as transaction markers and compacted records take offsets too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kstreams_assign.adapters.confluent.feed import Feed
from kstreams_assign.adapters.confluent.inputs import records_of
from kstreams_assign.adapters.confluent.settings import Setting
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Record

_NEEDED: Mapping[str, Setting] = {
    "enable.partition.eof": True,
    # Records may expire between the question for the first offset and its fetch.
    "auto.offset.reset": "earliest",
}


class TopicReader:
    """Reads partitions from the given offsets. Used by one thread.

    ``group_id`` is never joined; under access control the client must have the right to describe it.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str] | None,
        positions: Mapping[TopicPartition, int],
        *,
        group_id: str,
        read_committed: bool,
    ) -> None:
        self._feed = Feed(
            bootstrap_servers, client, group_id=group_id, read_committed=read_committed, tuning={}, needed=_NEEDED
        )
        self._feed.add(positions)

    def read(self, max_records: int, timeout_s: float) -> tuple[Sequence[Record], Mapping[TopicPartition, int]]:
        """Return the records that arrived, and the offsets at which partitions ended; waits for the first of either.

        Raises ``BrokerError`` for what waiting does not mend. A broker out of reach brings nothing.
        """
        taken = self._feed.take(max_records, timeout_s)
        records = [record for run in records_of(taken.messages).values() for record in run]
        return records, taken.ends

    def close(self) -> None:
        self._feed.close()
