"""A table with fewer partitions than its subtopology has tasks ends a worker with the reason, and is served again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.allowed_values import GROUP_PROTOCOLS
from kstreams_assign.errors import TopologyMismatch
from tests.worker.app import PATIENCE_S, Running, grow


def keep(task: Task, records: Sequence[Record]) -> None:
    """Keep nothing: no record comes."""


class Joining:
    """An application that joins orders with a table of customers, of which there are too few."""

    def __init__(self, broker: str, name: str, folder: Path, ends: ExitStack) -> None:
        self.broker, self.name, self.folder, self._ends = broker, name, folder, ends
        self.customers, self.orders = f"{name}-customers", f"{name}-orders"

    def create(self, **counts: int) -> None:
        topics = {getattr(self, topic): count for topic, count in counts.items()}
        ClusterAdmin(self.broker).create_topics(topics, PATIENCE_S)

    def start(self, **settings: Any) -> Running:
        config = Config(self.name, self.broker, state_dir=str(self.folder), session_timeout_ms=30_000, **settings)
        sources = [self.customers, self.orders]
        running = Running(
            config, [Subtopology(keep, sources=sources, stores=[Store("customers", source=self.customers)])]
        )
        self._ends.callback(running.stop)
        return running


@pytest.fixture
def joining(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Joining]:
    with ExitStack() as ends:
        yield Joining(broker, f"small-table-{request.node.callspec.id}", tmp_path, ends)


@pytest.mark.parametrize("group_protocol", GROUP_PROTOCOLS)
def test_a_worker_ends_with_both_numbers_and_runs_once_the_table_has_grown(
    joining: Joining, group_protocol: str
) -> None:
    """In a streams group the brokers refuse."""
    joining.create(customers=1, orders=2)
    error = joining.start(group_protocol=group_protocol).until_error()
    assert isinstance(error, TopologyMismatch)
    named = {
        "classic": f"too few partitions: {joining.customers} has 1, {joining.orders} has 2",
        "streams": f"{joining.customers} has different number of partitions: expected 2, found 1",
    }
    assert named[group_protocol] in str(error)
    grow(joining.broker, joining.customers, 2)
    joining.start(group_protocol=group_protocol).until_running(2)
