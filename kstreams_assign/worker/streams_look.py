"""A look at a streams group (KIP-1071) from one of its processes: the description, the topics, the group's settings.

The only place where a worker reads these settings. What must not live here: what a look means (``observe``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import StreamsCoordinator, streams_coordinator
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot, changelog_partitions, topics_of

LOOK_UP_S = 1.0
"""How long one question may take."""


class GroupLook:
    """Looks at one group, as often as asked. For one thread."""

    def __init__(self, group: str, coordinator: StreamsCoordinator, admin: ClusterAdmin) -> None:
        self._group = group
        self._coordinator = coordinator
        self._admin = admin

    def snapshot(self) -> StreamsSnapshot | None:
        """Return the group as it is now, with offsets as far as they are known; None where there is no such group.

        Raises ``BrokerUnavailable``, ``BrokerError``, ``MalformedUserData``.
        """
        described = self._coordinator.describe(self._group, LOOK_UP_S)
        if described is None:
            return None
        counts = self._admin.partition_counts(topics_of(described), LOOK_UP_S)
        bounds = self._bounds(changelog_partitions(described, counts))
        return StreamsSnapshot(
            described,
            wall_ms(),
            counts,
            {partition: end for partition, (_, end) in bounds.items()},
            {partition: begin for partition, (begin, _) in bounds.items()},
            self.settings(),
        )

    def _bounds(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        try:
            return self._admin.bounds(partitions, LOOK_UP_S)
        except BrokerError:
            return {}

    def settings(self) -> Mapping[str, str]:
        """Return the brokers' settings of the group; none where this process may not read them.

        Raises ``BrokerUnavailable``.
        """
        try:
            return self._coordinator.settings(self._group)
        except BrokerUnavailable:
            raise
        except BrokerError:
            return {}


@contextmanager
def own_look(config: Config, admin: ClusterAdmin) -> Iterator[GroupLook]:
    """Yield a look over a connection of its own, for the block. Raises ``BrokerUnavailable``."""
    servers, timeout_s = config.bootstrap_servers, config.session_timeout_ms / 3000
    with streams_coordinator(servers, config.client, timeout_s) as coordinator:
        yield GroupLook(config.application_id, coordinator, admin)
