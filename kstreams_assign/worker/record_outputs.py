"""What a commit asks of the client that writes changelogs and outputs, as protocols.

``adapters.confluent`` has the clients of a worker; ``testing`` has those of the test driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.buffer import Row


class RecordOutputs(Protocol):
    """``RecordProducer`` describes each call and its errors."""

    def begin_commit(self) -> None: ...

    def send_ahead(self, rows: Iterable[Row]) -> int: ...

    def produce_all(self, rows: Iterable[Row], *, track: bool = False) -> None: ...

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, int]: ...

    def acknowledged(self) -> Mapping[TopicPartition, int] | None: ...

    def abandon(self) -> None: ...


@runtime_checkable
class TransactionalOutputs(RecordOutputs, Protocol):
    """``TransactionalProducer`` describes each call and its errors."""

    @property
    def settled(self) -> bool: ...

    def prepare(self, timeout_s: float) -> None: ...

    def begin(self, timeout_s: float) -> None: ...

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        member: MemberId,
        timeout_s: float,
        metadata: Mapping[TopicPartition, str],
    ) -> None: ...

    def commit(self, timeout_s: float) -> None: ...

    def abort(self, timeout_s: float) -> None: ...

    def leave(self) -> None: ...
