"""Where the records come from: a broker's ``__consumer_offsets``, or a folder of Parquet files.

What lives here: Spark's readers and their options, the column by which records are spread, and the translation of
client settings. What must not: what is done with a batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.address import pattern_of
from kstreams_assign.history.layout import BUCKETS
from kstreams_assign.history.schemas import RECORDS
from kstreams_assign.history.staging import STATES_PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "__consumer_offsets"

_ROUTE = "coalesce(substring(key, 3, 2 + cast(conv(hex(substring(key, 3, 2)), 16, 10) as int)), X'')"
"""Of each key that is about a group, the group with its length: two bytes after the two of the key's type. All records
of a group have one route, so the JVM can spread them without Python; ``key_of`` decides later what they are about."""

RECORDS_A_BATCH = 500_000

_RDKAFKA_ALONE = re.compile(
    r"ssl\.(certificate|key)\.(location|pem)|ssl_(certificate|key|ca)|ssl\.ca\.(pem|certificate\.stores)"
    r"|ssl\.crl\.location|sasl\.oauthbearer\.(method|client\..*)|sasl\.kerberos\.(principal|keytab)"
)

_JAAS = 'org.apache.kafka.common.security.{module} required username="{name}" password="{password}";'


@dataclass(frozen=True)
class Broker:
    """Read from a cluster. ``client`` are settings by librdkafka's names, as everywhere in this package."""

    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    partitions: int = 50
    """How many the topic has. Naming them keeps Spark's reader out of a group, which would write into the topic."""
    records_a_batch: int = RECORDS_A_BATCH
    """A first run has years to catch up with; not all at once."""
    topic: str = TOPIC
    """A copy of the topic, for tests and measurements."""
    topic_id: str = ""
    """The brokers' id of the topic, if they gave one: a topic that is created again has another."""

    def stream(self, session: SparkSession) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "assign": json.dumps({self.topic: list(range(self.partitions))}),
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.records_a_batch),
            # Records that were compacted away while no query followed are lost; that is no reason to stop.
            "failOnDataLoss": "false",
            # Offset commits of a transaction that was aborted never happened.
            "kafka.isolation.level": "read_committed",
            **java_settings(self.client),
        }
        frame = session.readStream.format("kafka").options(**options).load()
        return frame.selectExpr("`partition`", "`offset`", "unix_millis(timestamp) as timestamp_ms", "key", "value")


@dataclass(frozen=True)
class Folder:
    """Read from Parquet files with the columns of ``schemas.RECORDS``, all that are there at a time."""

    path: Path

    def stream(self, session: SparkSession) -> DataFrame:
        if not self.path.is_dir():
            raise ConfigError(
                f"--records {self.path.absolute()}: the folder does not exist; history generate makes one"
            )
        return session.readStream.schema(RECORDS).parquet(pattern_of(str(self.path)))


Source = Broker | Folder


def spread(records: DataFrame, tasks: int, states: DataFrame | None = None) -> DataFrame:
    """Records over ``tasks`` partitions, each group together and in order, with ``bucket`` and ``route`` in front.

    ``states`` are rows of ``states_as_records``: each is then the first of its bucket, as it has no route.
    """
    routed = records.selectExpr(f"{_ROUTE} as route", "*").selectExpr(
        f"cast(pmod(crc32(route), {BUCKETS}) as int) as bucket", "*"
    )
    if states is not None:
        routed = routed.unionByName(states)
    return routed.repartition(min(tasks, BUCKETS), "bucket").sortWithinPartitions(
        "bucket", "route", "partition", "offset"
    )


def states_as_records(session: SparkSession, places: Sequence[str]) -> DataFrame | None:
    """The files with the groups' states, each in the value of a record; None if there are none."""
    if not places:
        return None
    return (
        session.read.format("binaryFile")
        .load(list(places))
        .selectExpr(
            "cast(regexp_extract(path, 'bucket=([0-9]+)/[^/]*$', 1) as int) as bucket",
            "cast(null as binary) as route",
            f"{STATES_PLACE} as `partition`",
            f"cast({STATES_PLACE} as bigint) as `offset`",
            "cast(0 as bigint) as timestamp_ms",
            "cast(null as binary) as key",
            "content as value",
        )
    )


def fresh_groups(records: DataFrame, since_ms: int) -> DataFrame:
    """The keys of records since then that may end a rebalance: generations, and targets and tasks of streams groups."""
    kinds = "substring(key, 1, 2) in (X'0002', X'0014', X'0016')"
    metadata = records.where(f"{kinds} and value is not null and timestamp_ms >= {since_ms}")
    return metadata.select("key")


def refuse_unknown_to_java(client: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` for a setting that librdkafka has alone: Java's client ignores it, and cannot sign in."""
    for name in client:
        if _RDKAFKA_ALONE.fullmatch(name):
            raise ConfigError(
                f"--client {name}: Spark reads with Java's client, which has no such setting; for a certificate of "
                "this client give ssl.keystore.location (PKCS#12) and ssl.keystore.password, for authorities "
                "ssl.ca.location"
            )


def java_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Client settings for Spark's Kafka source (Java's client): other names for passwords and certificates."""
    settings_left = dict(client)
    settings = {}
    name, password = settings_left.pop("sasl.username", None), settings_left.pop("sasl.password", None)
    mechanism = settings_left.pop("sasl.mechanisms", settings_left.pop("sasl.mechanism", None))
    if mechanism is not None:
        settings["sasl.mechanism"] = mechanism
    if name is not None and password is not None:
        module = "scram.ScramLoginModule" if (mechanism or "").startswith("SCRAM") else "plain.PlainLoginModule"
        settings["sasl.jaas.config"] = _JAAS.format(module=module, name=_quoted(name), password=_quoted(password))
    authorities = settings_left.pop("ssl.ca.location", None)
    if authorities is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}
    if settings_left.get("ssl.endpoint.identification.algorithm") == "none":
        settings_left["ssl.endpoint.identification.algorithm"] = ""
    return {f"kafka.{key}": value for key, value in {**settings_left, **settings}.items()}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
