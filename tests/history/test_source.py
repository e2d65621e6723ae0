"""Where records come from, and how they are spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.live import Asked, source_of
from kstreams_assign.history.records import key_of
from kstreams_assign.history.source import Folder, java_settings, spread
from tests.history.play import as_spark_does, fleet, write_records


def test_spark_spreads_records_as_the_twin_in_python_does(spark, tmp_path):
    records = fleet(groups=3)
    write_records(tmp_path / "records", "a.parquet", records)
    frame = spark.read.parquet(str(tmp_path / "records"))
    options = spread(frame, 1).select("bucket", "route", "partition", "offset").collect()
    expected = [row for batch in as_spark_does(records) for row in batch.to_pylist()]
    assert [(r.bucket, bytes(r.route), r.partition, r.offset) for r in options] == [
        (row["bucket"], row["route"], row["partition"], row["offset"]) for row in expected
    ]


@pytest.mark.parametrize("name", ["a[b]", "a*b?", "{a,b}", "a\\b"])
def test_a_folder_whose_name_is_a_pattern_is_read(spark, tmp_path, name):
    for folder in (name, "ab", "a", "aab1"):  # which the pattern matches, too
        write_records(tmp_path / folder, "a.parquet", fleet(groups=1)[: 1 if folder == name else 2])
    frame = Folder(tmp_path / name).stream(spark)
    query = frame.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark.table("seen").count() == 1


def test_all_records_of_a_group_have_one_route():
    routes = {}
    for batch in as_spark_does(fleet()):
        for row in batch.to_pylist():
            routes.setdefault(key_of(row["key"]).group, set()).add((row["bucket"], row["route"]))
    assert len(routes) > 5
    assert all(len(options) == 1 for group, options in routes.items() if group is not None)


@pytest.mark.parametrize(
    ("client", "java"),
    [
        ({"security.protocol": "SSL"}, {"kafka.security.protocol": "SSL"}),
        (
            {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'a"b\\'},
            {
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'username="me" password="a\\"b\\\\";',
            },
        ),
        (
            {"ssl.ca.location": "ca.pem", "ssl.endpoint.identification.algorithm": "none"},
            {
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": "ca.pem",
                "kafka.ssl.endpoint.identification.algorithm": "",
            },
        ),
    ],
)
def test_client_settings_have_other_names_in_java(client, java):
    assert java_settings(client) == java


@pytest.mark.parametrize(
    "name",
    [
        "ssl.certificate.location",
        "ssl.key.pem",
        "ssl_key",
        "ssl.ca.pem",
        "ssl.crl.location",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.method",
        "sasl.kerberos.keytab",
    ],
)
def test_a_setting_that_java_does_not_know_is_refused_before_spark_starts(name, tmp_path):
    with pytest.raises(ConfigError, match=rf"--client {name}: Spark reads with Java's client, .*ssl.keystore.location"):
        source_of(Asked(tmp_path, bootstrap_servers="127.0.0.1:1", client={name: "x"}))


def test_scram_has_a_login_module_of_its_own():
    options = java_settings({"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": "p"})
    assert "scram.ScramLoginModule" in options["kafka.sasl.jaas.config"]
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"


def test_a_folder_of_records_needs_no_broker(tmp_path):
    assert source_of(Asked(tmp_path, records=tmp_path)) == (Folder(tmp_path), None)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({}, "either --bootstrap-servers or --records"),
        ({"bootstrap_servers": "b:1", "records": Path()}, "either --bootstrap-servers or --records"),
        ({"records": Path("no-such-folder")}, "no-such-folder: the folder does not exist; history generate"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_starts(tmp_path, wrong, text):
    with pytest.raises(ConfigError, match=text):
        source_of(Asked(tmp_path, **wrong))
