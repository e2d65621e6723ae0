"""kafka-python: the membership, and the groups as brokers describe them. The one room that imports ``kafka``.

``membership`` joins a group and carries commits; ``committed_metadata`` reads what stands beside them; ``admin``
takes members out; ``groups`` asks about any group, for the raw bytes of its members, which no other client hands out;
``streams_groups`` asks the coordinator of a streams group, ``streams_commits`` has the form of its commits;
``absent_partitions`` reads which partitions a commit left out;
``connections`` mends how it connects, ``join_results`` how it joins; ``settings`` translates librdkafka's names,
``faults`` errors. confluent-kafka moves the records.
"""

from __future__ import annotations

from kstreams_assign.adapters.kafka_python.admin import remove_members
from kstreams_assign.adapters.kafka_python.committed_metadata import CommittedMetadata
from kstreams_assign.adapters.kafka_python.connections import mend_connections
from kstreams_assign.adapters.kafka_python.groups import GroupDescriber, describes_groups
from kstreams_assign.adapters.kafka_python.membership import GroupClient
from kstreams_assign.adapters.kafka_python.settings import kafka_python_settings
from kstreams_assign.adapters.kafka_python.streams_groups import StreamsCoordinator, streams_coordinator

__all__ = [
    "CommittedMetadata",
    "GroupClient",
    "GroupDescriber",
    "StreamsCoordinator",
    "describes_groups",
    "kafka_python_settings",
    "remove_members",
    "streams_coordinator",
]

mend_connections()
