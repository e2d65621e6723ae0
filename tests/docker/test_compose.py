"""``docker compose up``: three brokers, three workers, three applications, and every order counted."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign import TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader
from tests.docker.cluster import BOOTSTRAP, Cluster, docker, inspected, until
from tests.docker.images import ROOT

pytestmark = [pytest.mark.usefixtures("docker"), pytest.mark.timeout(600)]  # containers start and stop slowly

WORKERS = ("worker-1", "worker-2", "worker-3")
PARTITIONS = 6
WITHIN_S = 150
"""Half a minute on an idle machine."""


@pytest.fixture(scope="module")
def stack(docker: None) -> Iterator[tuple[Cluster, float]]:  # noqa: ARG001  # the part that has to be there
    """Start everything; yield it with the time of the start."""
    began = time.monotonic()
    with Cluster("kstreams-compose") as running:
        yield running, began


def view(stack: Cluster) -> dict | None:
    """Return the group; None if there is none yet, or the brokers do not answer."""
    command = ("kstreams-assign", "inspect", "count-orders", "-b", "kafka-1:9092", "--json")
    done = docker("exec", stack.container("worker-1"), *command, timeout_s=WITHIN_S, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def spread(group: dict) -> list[tuple[int, int]]:
    return sorted((len(process["active"]), len(process["standby"])) for process in group["processes"])


def balanced(stack: Cluster) -> bool:
    group = view(stack)
    return group is not None and group["state"] == "Stable" and group["balanced"] and spread(group) == [(2, 2)] * 3


def ready() -> bool:
    """Return whether its tasks run; a group is balanced before that."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:8082/ready", timeout=10) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:  # 503
        return False


def test_it_is_balanced_counts_every_order_and_publishes_on_loopback_only(stack, capsys):
    stack, began = stack
    until(lambda: balanced(stack), WITHIN_S, "the group is balanced")
    with capsys.disabled():
        print(f" [compose up to balanced: {time.monotonic() - began:.1f} s]", end="")
    for service in (*WORKERS, "kafka-1", "kafka-2", "kafka-3"):
        ports = inspected(stack.container(service))["NetworkSettings"]["Ports"].values()
        assert {binding["HostIp"] for bound in ports if bound for binding in bound} == {"127.0.0.1"}
    until(ready, WITHIN_S, "the second worker is ready")
    container = stack.container("orders")
    docker("stop", "--time", "60", container)
    said = re.search(r"(\d+) orders sent", stack.logs("orders"))
    assert said is not None, (inspected(container)["State"], stack.logs("orders"))
    sent = int(said[1])
    assert sent > 0
    until(lambda: counted() >= sent, WITHIN_S, f"{sent} orders counted")
    assert counted() == sent


def test_a_stopped_worker_ends_in_order_within_its_grace_and_keeps_its_identity(stack):
    running, _ = stack
    worker = running.container("worker-1")
    until(lambda: len(process_ids(worker)) == 1, WITHIN_S, "the worker logs its process id")
    docker("stop", "--time", "30", worker)
    assert inspected(worker)["State"]["ExitCode"] == 0
    assert read_log(worker)[-1]["event"] == "closed"
    docker("start", worker)
    until(lambda: inspected(worker)["State"]["Health"]["Status"] == "healthy", WITHIN_S, "healthy on /live")
    until(lambda: read_log(worker)[-1]["event"] != "closed", WITHIN_S, "it works again")
    assert len(process_ids(worker)) == 1


def read_log(worker: str) -> list[dict]:
    """Return the worker's log, over all its starts."""
    return [json.loads(line) for line in docker("logs", worker).stdout.splitlines() if line.startswith("{")]


def process_ids(worker: str) -> set[str]:
    return {event["process_id"] for event in read_log(worker)}


def counted() -> int:
    """Return the sum of the newest totals in the changelog."""
    admin = ClusterAdmin(BOOTSTRAP)
    reader = ConfluentChangelogReader(BOOTSTRAP, group_id="count", admin=admin)
    changelogs = [TopicPartition("count-orders-totals-changelog", number) for number in range(PARTITIONS)]
    ends = {partition: end for partition, (_, end) in admin.bounds(changelogs, 10).items()}
    reader.add(dict.fromkeys(changelogs, 0))
    reached, totals = dict.fromkeys(changelogs, 0), {}
    while any(reached[partition] < end for partition, end in ends.items()):
        for batch in reader.poll(0.5):
            reached[batch.partition] = batch.next_offset
            totals.update(batch.writes)
    reader.close()
    return sum(map(int, totals.values()))


def test_prometheus_scrapes_the_workers_of_the_file():
    asked = (ROOT / "docker" / "compose" / "prometheus.yml").read_text(encoding="utf-8")
    assert re.findall(r'"(worker-\d):8080"', asked) == list(WORKERS)


def test_the_file_names_only_existing_paths():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    for place in re.findall(r'"(\./[^:"]+):', text):
        assert Path(ROOT, place).exists(), place
