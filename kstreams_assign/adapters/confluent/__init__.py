"""The data plane: confluent-kafka (librdkafka) on explicit partitions, without group membership.

The one room that imports ``confluent_kafka``. One file per client role: ``changelogs`` reads state back, ``inputs``
feeds tasks, ``producer`` writes what tasks make, ``transactions`` the same in transactions, ``admin`` asks about
topics, ``first_contact`` whether the brokers let us in, ``deletions`` removes consumed records, ``group_records`` finds
a group's last generation; ``topic_reader`` shows a person a topic's records; ``feed`` is what the readers share,
``faults`` the one table from librdkafka's errors to ours. Membership and commits are ``adapters.kafka_python``'s.
"""

from __future__ import annotations

from kstreams_assign.adapters.confluent.admin import ClusterAdmin
from kstreams_assign.adapters.confluent.changelogs import ConfluentChangelogReader
from kstreams_assign.adapters.confluent.committed import CommittedOffsets
from kstreams_assign.adapters.confluent.deletions import RecordDeletions
from kstreams_assign.adapters.confluent.inputs import InputConsumer
from kstreams_assign.adapters.confluent.producer import RecordProducer
from kstreams_assign.adapters.confluent.source_limits import SourceLimits
from kstreams_assign.adapters.confluent.stable_ends import StableEnds
from kstreams_assign.adapters.confluent.topic_reader import TopicReader
from kstreams_assign.adapters.confluent.transactions import TransactionalProducer

__all__ = [
    "ClusterAdmin",
    "CommittedOffsets",
    "ConfluentChangelogReader",
    "InputConsumer",
    "RecordDeletions",
    "RecordProducer",
    "SourceLimits",
    "StableEnds",
    "TopicReader",
    "TransactionalProducer",
]
