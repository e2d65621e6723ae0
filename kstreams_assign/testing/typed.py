"""Topics of a test with Python values in place of bytes (Java: ``TestInputTopic``, ``TestOutputTopic``).

What must not live here: what ``pipe`` and ``read`` do (``driver``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from kstreams_assign.serdes.serde import Serde
from kstreams_assign.tasks.record import Record
from kstreams_assign.testing.broker import MemoryBroker
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.coding import Coder

K = TypeVar("K")
V = TypeVar("V")


class Pipes(Protocol):
    """``TopologyTestDriver.pipe``."""

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        """Write a record."""
        ...


class InputTopic(Generic[K, V]):
    """Write Python values to a source topic (``TopologyTestDriver.input_topic``)."""

    def __init__(self, pipe: Pipes, name: str, key: Serde[K], value: Serde[V], topic: str, at_work: AtWork) -> None:
        """``name`` is what ``pipe`` takes, ``topic`` its full name."""
        self._pipe = pipe
        self._name = name
        self._keys = Coder(key, topic, "key", f"pipe to {name!r}", at_work)
        self._values = Coder(value, topic, "value", f"pipe to {name!r}", at_work)

    def pipe(
        self,
        key: K | None,
        value: V | None,
        timestamp_ms: int | None = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        """Write a record and process it, as ``TopologyTestDriver.pipe`` does; None writes no key or value.

        Raises ``SerializationError`` for what the serde cannot write, and as ``TopologyTestDriver.pipe`` does.
        """
        key_bytes, value_bytes = self._keys.write_or_none(key), self._values.write_or_none(value)
        self._pipe(self._name, key_bytes, value_bytes, timestamp_ms, headers=headers, partition=partition)


class OutputTopic(Generic[K, V]):
    """Read Python values that the topology has written to a topic (``TopologyTestDriver.output_topic``)."""

    def __init__(self, broker: MemoryBroker, name: str, key: Serde[K], value: Serde[V], topic: str) -> None:
        """``name`` is what ``TopologyTestDriver.read`` takes, ``topic`` its full name."""
        self._broker = broker
        self._topic = topic
        self._at_work = AtWork(0)
        self._keys = Coder(key, topic, "key", f"read of {name!r}", self._at_work)
        self._values = Coder(value, topic, "value", f"read of {name!r}", self._at_work)

    def read(self) -> list[tuple[K | None, V | None]]:
        """Return the keys and values that were not read yet, oldest first; None for a record without one.

        Raises ``SerializationError`` for bytes that the serde cannot read. Then all of them stay unread, and
        ``TopologyTestDriver.read`` returns their bytes.
        """
        pairs = list(map(self._pair, self._broker.unread(self._topic)))
        self._broker.read_written(self._topic)
        return pairs

    def _pair(self, record: Record) -> tuple[K | None, V | None]:
        self._at_work.record = record
        return self._keys.read_or_none(record.key), self._values.read_or_none(record.value)
