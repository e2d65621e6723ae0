"""Faults that need a network: three brokers (replication 3, min.insync 2), three workers, exactly once, under load.

Each fault ends with nothing lost, nothing applied twice, zombies fenced, and the group balanced. With ``-s`` the
longest silence of a task is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from tests.docker.cluster import BROKERS, Cluster, docker, inspected, until
from tests.docker.group import SESSION_S, Group, group, now, slow_down, speed_up

pytestmark = [pytest.mark.usefixtures("docker"), pytest.mark.timeout(480)]  # containers start and stop slowly

LONG_S = SESSION_S + 3


HEALTHY_WITHIN_S = 240
"""On a machine that does ten other things; half a minute on an idle one."""


@pytest.fixture(scope="module")
def cluster(docker: None) -> Iterator[Cluster]:  # noqa: ARG001  # the part that has to be there
    with Cluster("kstreams-faults", *BROKERS) as running:
        all_healthy(running, HEALTHY_WITHIN_S)
        yield running


def healthy(cluster: Cluster, broker: str) -> bool:
    return inspected(cluster.container(broker))["State"]["Health"]["Status"] == "healthy"


def all_healthy(cluster: Cluster, within_s: float) -> None:
    try:
        until(lambda: all(healthy(cluster, broker) for broker in BROKERS), within_s, "all brokers are healthy")
    except AssertionError as never:
        logs = [f"{broker}: {cluster.logs(broker)[-4_000:]}" for broker in BROKERS if not healthy(cluster, broker)]
        raise AssertionError("\n".join((str(never), *logs))) from never


def pass_by(seconds: float) -> None:
    """Let a fault last; there is nothing to wait for except its end."""
    Event().wait(seconds)


def broker_stopped(group: Group) -> None:
    container = group.cluster.container("kafka-1")
    docker("stop", "--time", "10", container)
    pass_by(2)
    docker("start", container)


def broker_killed(group: Group) -> None:
    container = group.cluster.container("kafka-2")
    docker("kill", container)
    pass_by(4)
    docker("start", container)


def broker_paused(group: Group) -> None:
    container = group.cluster.container("kafka-3")
    docker("pause", container)
    pass_by(LONG_S)
    docker("unpause", container)


def broker_cut_off_from_its_peers(group: Group) -> None:
    group.cluster.cut("kafka-1", "brokers")
    pass_by(LONG_S)
    group.cluster.mend("kafka-1", "brokers", "peer-1")


def worker_cut_off_from_the_brokers(group: Group) -> None:
    network, worker = f"{group.cluster.project}_clients", group.workers[0]
    docker("network", "disconnect", network, worker)
    pass_by(LONG_S)
    docker("network", "connect", network, worker)
    group.slept.add(worker)


def worker_paused(group: Group) -> None:
    docker("pause", group.workers[0])
    pass_by(LONG_S)
    docker("unpause", group.workers[0])
    group.slept.add(group.workers[0])


def slow_links(group: Group) -> None:
    print(f"[{slow_down(group.workers)}]", end=" ", file=sys.stderr)
    pass_by(LONG_S)
    speed_up(group.workers)


FAULTS = (
    broker_stopped,
    broker_killed,
    broker_paused,
    broker_cut_off_from_its_peers,
    worker_cut_off_from_the_brokers,
    worker_paused,
    slow_links,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost_or_applied_twice_and_the_group_is_balanced_again_after(
    cluster: Cluster, tmp_path: Path, fault: Callable[[Group], None]
) -> None:
    with group(cluster, fault.__name__.replace("_", "-"), tmp_path) as working:
        began = now()
        fault(working)
        all_healthy(cluster, HEALTHY_WITHIN_S)
        working.come_to_rest()
        print(f"[longest silence {working.silence_s(began):.1f} s]", end=" ", file=sys.stderr)
        assert working.violations() == []
