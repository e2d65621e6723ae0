"""Input records for the tasks of this process.

What must not live here: which partitions those are (the member's), where they were committed (the group's), what a
record does. The idea: a task that has just arrived is served within milliseconds, and the others never notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import repeat
from operator import itemgetter

from confluent_kafka import Message

from kstreams_assign.adapters.confluent.feed import BATCH_BYTES_MAX, BUFFER_BYTES, Feed, offset_of, runs
from kstreams_assign.adapters.confluent.headers import headers_of, readable_headers
from kstreams_assign.adapters.confluent.settings import Setting
from kstreams_assign.errors import OffsetOutOfRange
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.input_offsets import Passed
from kstreams_assign.tasks.record import Headers, Record

_TUNING: Mapping[str, Setting] = {
    # A partition that has just been added waits for the fetch under way, which without news lasts this long.
    "fetch.wait.max.ms": 20,
    # What lies in the queue is served before a new partition's first record, so it is kept short ...
    "queued.min.messages": 10_000,
    # ... and filled again at once, not after the default second.
    "fetch.queue.backoff.ms": 5,
}

# A named tuple's own constructors are Python functions; this stays in C for every record, a fifth less time.
_make_record = partial(tuple.__new__, Record)


class InputConsumer:
    """Reads input partitions at given offsets. Used by one thread.

    ``max_bytes`` bounds what one ``poll`` brings, roughly, as records have to be taken before their size is known;
    ``buffer_bytes`` bounds what is fetched ahead.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str] | None = None,
        *,
        group_id: str,
        read_committed: bool = False,
        max_bytes: int = BATCH_BYTES_MAX,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._feed = Feed(
            bootstrap_servers,
            client,
            group_id=group_id,
            read_committed=read_committed,
            tuning=_TUNING,
            needed={"enable.partition.eof": True},
            max_bytes=max_bytes,
            buffer_bytes=buffer_bytes,
        )
        self._gone: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        """The offset behind the last record that was brought."""
        self._reached: dict[TopicPartition, int] = {}
        """The end that a partition has reached; higher than the next offset if markers of transactions lie between."""
        self._unfetched: dict[TopicPartition, int | None] = {}
        """Partitions of which nothing came since they were added, with the end that was known before."""
        self._took_all = True

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start reading at these offsets, not paused; the others flow on."""
        self._feed.add(positions)
        self._forget(positions)
        self._next.update(positions)
        self._unfetched.update((partition, self._feed.end(partition)) for partition in positions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading: no later ``poll`` brings a record of these."""
        leaving = list(partitions)
        self._feed.remove(leaving)
        self._forget(leaving)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring nothing of these until ``resume``, which goes on behind the last record that ``poll`` brought."""
        self._feed.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._feed.resume(partitions)

    def poll(self, max_records: int, timeout_s: float) -> dict[TopicPartition, list[Record]]:
        """What has arrived, oldest first in each partition; waits for the first record only.

        Raises ``OffsetOutOfRange`` for partitions whose position the broker no longer holds, once everything read
        before has been handed out; they are removed, and may be added again elsewhere.
        Raises ``BrokerError`` for what waiting does not mend, such as damaged records: those before were handed out,
        and their partition is removed. A broker out of reach just brings nothing.
        """
        if self._gone:  # what was read before has been handed out, and the feed brings no more of these
            self._raise_gone()
        taken = self._feed.take(max_records, timeout_s)
        self._gone |= taken.out_of_range
        self._reached |= taken.ends
        self._took_all = taken.is_all
        if not taken.messages and self._gone:
            self._raise_gone()
        polled = records_of(taken.messages)
        self._next.update((partition, records[-1].offset + 1) for partition, records in polled.items())
        for partition in self._unfetched and [*polled, *taken.ends]:
            self._unfetched.pop(partition, None)
        return polled

    def ends(self) -> Mapping[TopicPartition, int]:
        """Where each partition ended when it was last fetched; sends no request."""
        return self._feed.ends()

    def is_at_end(self, partition: TopicPartition) -> bool:
        """Return whether all records of a partition that is read were brought, as of its newest fetch.

        An end that was reached is old news while more has arrived than the last poll brought.
        """
        next_offset = self._next.get(partition)
        if next_offset is None:
            return False
        end, reached = self._feed.end(partition), self._reached.get(partition, -1)
        if reached >= next_offset and (self._took_all or end is None or end <= reached):
            return True
        return end == next_offset and (partition not in self._unfetched or end != self._unfetched[partition])

    def passed(self) -> dict[TopicPartition, Passed]:
        """Return where no records lie: behind the last that was brought, up to an end that was reached.

        Markers of transactions, aborted records and what compaction has removed take offsets there.
        """
        read = self._reached.keys() & self._next.keys()
        passed = {partition: Passed(self._next[partition], self._reached[partition]) for partition in read}
        return {partition: each for partition, each in passed.items() if each.after < each.to}

    def close(self) -> None:
        self._feed.close()

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            for known in (self._gone, self._next, self._reached, self._unfetched):
                known.pop(partition, None)

    def _raise_gone(self) -> None:
        gone, self._gone = self._gone, {}
        listed = ", ".join(f"{partition} at {offset}" for partition, offset in sorted(gone.items()))
        raise OffsetOutOfRange(f"the broker no longer holds {listed}", gone)


def records_of(messages: list[Message]) -> dict[TopicPartition, list[Record]]:
    """Return the records of each partition, in order."""
    by_partition: dict[TopicPartition, list[Record]] = {}
    for partition, run in runs(messages):
        try:
            records = list(map(_make_record, _rows(partition, run, map(headers_of, run))))
        except SystemError:  # a header's name is not UTF-8
            records = list(map(_make_record, _rows(partition, run, readable_headers(run))))
        by_partition.setdefault(partition, []).extend(records)
    return by_partition


def _rows(
    partition: TopicPartition, run: list[Message], headers: Iterable[Headers | None]
) -> Iterable[tuple[object, ...]]:
    """The fields of ``Record``, in its order."""
    return zip(
        repeat(partition.topic),
        repeat(partition.partition),
        map(offset_of, run),
        map(itemgetter(1), map(Message.timestamp, run)),
        map(Message.key, run),
        map(Message.value, run),
        headers,
        strict=False,  # two of the columns have no end
    )
