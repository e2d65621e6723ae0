"""On a Spark cluster of a master and two workers: the tables are those of the derivation alone, whatever is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.history.fleet import alternatives_of, what_if
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.schemas import arrow_table
from kstreams_assign.local import LocalBroker
from tests.chaos.reading import Unreadable
from tests.chaos.reading import records as read_topic
from tests.history import cluster_driver
from tests.history.cluster import EXECUTORS_PYTHON, HOST, Cluster, driver_settings, spark_cluster
from tests.history.cluster_driver import KILL_DRIVER, KILL_EXECUTOR
from tests.history.marker import SECRET, command_lines, files_with_it
from tests.history.play import Raw, counted, cut, derived, derived_rows, fleet, rows, table_rows, write_records
from tests.installed import ROOT, build_wheel, install_wheel
from tests.worker.app import until

PATIENCE_S = 400
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("spark")]  # several Sparks start, one after the other

TOPIC, PARTITIONS = "copied-offsets", 3
AN_HOUR_MS = 3_600_000
NEVER = str(2**63 - 1)
BATCHES = cut([record for record in fleet(8, 4, 5) if record.key is not None], 3)


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The Pythons of two environments with the built wheel, one for the executors of each worker."""
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    return [install_wheel(wheel, tmp_path_factory.mktemp(f"executors-{number}")) for number in (1, 2)]


@pytest.fixture(scope="module")
def cluster(pythons: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), pythons) as running:
        yield running


def history(*arguments: str, cluster: Cluster) -> subprocess.CompletedProcess[str]:
    """``kstreams-assign history`` on the cluster, as a user calls it."""
    return subprocess.run(
        command(*arguments, cluster=cluster), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def command(*arguments: str, cluster: Cluster) -> list[str]:
    conf = [word for pair in driver_settings().items() for word in ("--conf", "=".join(pair))]
    return [sys.executable, "-m", "kstreams_assign", "history", *arguments, "--master", cluster.url, *conf]


def test_the_commands_give_on_a_cluster_what_they_give_on_one_machine(cluster, spark, tmp_path):
    for part, batch in enumerate(BATCHES):
        write_records(tmp_path / "records", f"{part}.parquet", batch)
    out, file = tmp_path / "out", tmp_path / "history.toml"
    file.write_text(f'[conf]\n"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"\n', encoding="utf-8")
    words = ("--out", str(out), "--records", str(tmp_path / "records"), "--once", "--config", str(file))
    said, seen = "", set()
    with subprocess.Popen(
        command("follow", *words, cluster=cluster), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as followed:
        assert followed.stderr is not None
        for line in followed.stderr:
            said += line
            seen |= command_lines(cluster.workers)
    assert followed.returncode == 0, said
    assert any("CoarseGrainedExecutorBackend" in line for line in seen)
    assert any("pyspark.daemon" in line for line in seen)
    assert [text for text in (said, *seen) if SECRET in text] == []
    assert [*files_with_it(cluster.folder), *files_with_it(out)] == []
    records = [record for batch in BATCHES for record in batch]
    assert_derived(Layout(out), records)

    change = "max_warmup_replicas=1,8"
    asked = history("what-if", "--out", str(out), "--set", change, "--json", cluster=cluster)
    assert asked.returncode == 0, asked.stderr
    alone = what_if(spark, Layout(out), alternatives_of([change], []), tasks=2)
    assert json.loads(asked.stdout) == json.loads(json.dumps(asdict(alone)))
    assert alone.replayed > 5


def test_the_simulator_plays_there_what_it_plays_here(cluster):
    words = [sys.executable, "-m", "kstreams_assign", "simulate", "--seed", "5", "--count", "3", "--faults", "--json"]
    there = {**os.environ, "PYSPARK_PYTHON": EXECUTORS_PYTHON, "SPARK_LOCAL_IP": HOST}
    here, played = (
        subprocess.run([*words, *more], stdout=subprocess.PIPE, text=True, check=True, env=there, timeout=PATIENCE_S)
        for more in ([], ["--spark", cluster.url])
    )
    facts = [json.loads(each.stdout) for each in (here, played)]
    seeds = [(each["seeds"], each["rebalances"], each["violations"]) for each in facts]
    assert seeds[0] == seeds[1]
    assert facts[0]["rebalances"] > 3


def assert_derived(layout: Layout, records: Sequence[Raw]) -> None:
    """The tables have each row of the pure derivation as often as it has it, and no other."""
    expected, present = derived_rows(records), rows(layout)
    assert expected.keys() == present.keys()
    for name in expected.keys() - {"counts"}:
        assert present[name] == expected[name], name
    tables = derived(records)
    assert counted(table_rows(layout.root / "counts")) == counted(arrow_table("counts", tables["counts"]).to_pylist())


@dataclass
class Driver:
    """A running ``cluster_driver.py``."""

    process: subprocess.Popen[str]

    def start_run(self, **asked: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def executors(self) -> int:
        """How many executors there are when the session begins."""
        return self._line()["executors"]

    def until_records(self, wanted: int) -> None:
        """Wait for batches with so many records."""
        while wanted > 0:
            wanted -= self._line()["records"]
        assert wanted == 0

    def until_ended(self) -> None:
        while "ended" not in self._line():
            pass

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.wait(PATIENCE_S)
        return json.loads(line)


@contextmanager
def driver(cluster: Cluster, marks: Path, **conf: str) -> Iterator[Driver]:
    arguments = [cluster.url, str(marks), json.dumps({**driver_settings(), **conf}), str(len(cluster.workers))]
    command = [sys.executable, "-m", cluster_driver.__name__, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Driver(process)
        finally:
            process.kill()


class CopiedTopic:
    """A compacted topic with copied records; it is compacted when asked."""

    def __init__(self, broker: LocalBroker) -> None:
        self.broker = broker
        self.sent = 0
        configs = {"cleanup.policy": "compact", "segment.ms": str(AN_HOUR_MS), "min.compaction.lag.ms": NEVER}
        ClusterAdmin(broker.bootstrap_servers).create_topics({TOPIC: PARTITIONS}, 60, configs={TOPIC: configs})

    @property
    def source(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.broker.bootstrap_servers, "topic": TOPIC, "partitions": PARTITIONS}

    def send(self, records: Sequence[Raw]) -> int:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for record in records:
            producer.produce(TOPIC, record.value, record.key, record.partition, timestamp=record.timestamp_ms)
        assert producer.flush(PATIENCE_S) == 0
        self.sent += len(records)
        return len(records)

    def records(self) -> list[Raw]:
        """What is there now, as a plain consumer reads it; a broker on a busy machine may be away for a moment."""
        read: list[Raw] = []

        def is_readable() -> bool:
            with suppress(Unreadable):
                messages = read_topic(self.broker.bootstrap_servers, TOPIC)
                read[:] = [Raw(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value()) for m in messages]
                return True
            return False

        until(is_readable, PATIENCE_S)
        return read

    def compact(self) -> list[Raw]:
        """Let the broker compact it, and return what is left: each key once, since time has closed all segments."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        settings = {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.001"}
        entries = [ConfigEntry(*pair, incremental_operation=AlterConfigOpType.SET) for pair in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(60)
        until(
            lambda: max(Counter((record.partition, record.key) for record in self.records()).values()) == 1, PATIENCE_S
        )
        return self.records()


@pytest.fixture
def topic() -> Iterator[CopiedTopic]:
    with LocalBroker(settings={"log.cleaner.backoff.ms": "100"}) as broker:
        yield CopiedTopic(broker)


def closing_records() -> list[Raw]:
    """A record for each partition that is so late that the broker closes the segment before it, if it is sent apart."""
    late_ms = max(record.timestamp_ms for batch in BATCHES for record in batch) + 2 * AN_HOUR_MS
    return [Raw(partition, 0, late_ms, b"\0\7late", b"x") for partition in range(PARTITIONS)]


def test_nothing_is_lost_or_doubled_when_executor_broker_and_driver_are_killed(cluster, pythons, topic, tmp_path):
    marks, out, environments = tmp_path / "marks", tmp_path / "out", [python.parent.parent for python in pythons]
    marks.mkdir()
    source = {**topic.source, "records_a_batch": 40}
    with driver(cluster, marks) as first:
        assert first.executors() == len(pythons)
        (marks / KILL_EXECUTOR).touch()
        first.start_run(out=str(out), source=source, settings={"every_s": 0.2})
        first.until_records(topic.send(BATCHES[0]))
        assert not (marks / KILL_EXECUTOR).exists(), "an executor was killed with all its files written"

        topic.broker.kill()
        topic.broker.restart()
        first.until_records(topic.send(BATCHES[1]))

        second = history("follow", "--out", str(out), "-b", topic.broker.bootstrap_servers, cluster=cluster)
        assert second.returncode == 1
        assert f"--out {out}: another run works on it, process {first.process.pid} on host {os.uname().nodename}" in (
            second.stderr
        )
        assert "starting Spark" not in second.stderr

        (marks / KILL_DRIVER).touch()
        topic.send(BATCHES[2])
        topic.send(closing_records())
        assert first.process.wait(PATIENCE_S) == -9
        (marks / KILL_DRIVER).unlink()

    packages = [Path(mark.read_text(encoding="utf-8")) for mark in marks.glob("executor-*")]
    homes = [home for package in packages for home in environments if package.is_relative_to(home)]
    assert set(homes) == set(environments), "each worker's executors have the package of their own environment"
    assert len(homes) == len(packages) > len(environments), "the executor that was killed has a successor"

    moved, late = tmp_path / "elsewhere" / "out", tmp_path / "late"
    moved.parent.mkdir()
    out.rename(moved)
    with driver(cluster, marks, **{"spark.driver.host": "localhost"}) as again:
        assert again.executors() == len(pythons)
        again.start_run(out=str(moved), source=source, settings={"once": True})
        again.until_ended()
        everything = topic.records()
        assert len(everything) == topic.sent
        assert_derived(Layout(moved), everything)

        left = topic.compact()
        assert len(left) < len(everything)
        again.start_run(out=str(late), source=source, settings={"once": True})
        again.until_ended()
        assert_derived(Layout(late), left)
