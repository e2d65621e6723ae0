"""The worker's image: small, without rights, healthy, ended by SIGTERM within its grace, its state on a volume."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count

import pytest

from tests.docker.cluster import docker, inspected, until
from tests.docker.images import ROOT, WORKER_IMAGE

pytestmark = pytest.mark.usefixtures("docker")

NAMES = (f"kstreams-image-{number}" for number in count())
SETTINGS = """
application_id = "image"
bootstrap_servers = "127.0.0.1:1"
state_dir = "/var/lib/kstreams-assign"
socket = "/run/kstreams-assign/worker.sock"
http = "0.0.0.0:8080"
[[topology.subtopology]]
sources = ["in"]
stores = ["totals"]
"""


@pytest.fixture
def name() -> Iterator[str]:
    """A container's name; gone afterwards, with its volume."""
    found = next(NAMES)
    yield found
    docker("rm", "--force", "--volumes", found)


@pytest.fixture
def worker(name, tmp_path) -> str:
    """A worker that runs, with no broker in reach."""
    (tmp_path / "worker.toml").write_text(SETTINGS, encoding="utf-8")
    mount = f"{tmp_path}:/etc/kstreams-assign:ro"
    docker("run", "--detach", "--name", name, "--health-interval", "1s", "--volume", mount, WORKER_IMAGE)
    return name


def test_it_runs_as_a_user_without_rights_and_answers_as_the_command_does():
    assert docker("run", "--rm", WORKER_IMAGE, "--version").stdout.startswith("kstreams-assign ")
    told = docker("run", "--rm", "--entrypoint", "id", WORKER_IMAGE).stdout
    assert "uid=10001" in told
    assert "root" not in told


def test_its_state_is_on_a_volume_and_it_ends_on_sigterm(worker):
    found = inspected(worker)
    assert found["Config"]["StopSignal"] == "SIGTERM"
    assert [mount["Destination"] for mount in found["Mounts"] if mount["Type"] == "volume"] == [
        "/var/lib/kstreams-assign"
    ]
    until(lambda: inspected(worker)["State"]["Health"]["Status"] == "healthy", 60, "healthy on /live")
    docker("stop", "--time", "60", worker)
    assert inspected(worker)["State"]["ExitCode"] in {0, 3}  # 3: no broker was ever there
    docker("start", worker)
    until(lambda: len(process_ids(worker)) == 1, 30, "the same process id after a restart")


def process_ids(worker: str) -> set[str]:
    """Those that a worker told of in its log, over all its starts."""
    told = docker("logs", worker).stdout
    return {json.loads(line)["process_id"] for line in told.splitlines() if line.startswith("{")}


def test_a_missing_file_and_a_wrong_setting_are_told_in_one_line(name):
    for arguments, says in (
        ((), "/etc/kstreams-assign/worker.toml"),
        (("worker", "--config", "/dev/null", "--set", "num_standby_replicas=-1"), "application_id: missing"),
    ):
        docker("create", "--name", name, WORKER_IMAGE, *arguments)
        docker("start", name)
        docker("wait", name)
        assert inspected(name)["State"]["ExitCode"] == 2
        said = docker("logs", name).stderr
        assert says in said
        assert len(said.splitlines()) == 1
        docker("rm", name)
    docker("create", "--name", name, WORKER_IMAGE)


def test_nothing_of_the_build_is_left_in_it():
    tree = docker("run", "--rm", "--entrypoint", "ls", WORKER_IMAGE, "/opt/kstreams-assign/bin", "/").stdout.split()
    assert "kstreams-assign" in tree
    assert not {"pip", "src", "wheels", "constraints.txt"} & set(tree)


def test_the_readme_names_the_image_and_its_parts():
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=python:3\.\d+-slim", dockerfile, re.MULTILINE)
