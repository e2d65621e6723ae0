"""The worker's image: no rights, nothing unnecessary, its state on a volume. ``test_compose`` runs it at work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count

import pytest

from tests.docker.cluster import docker, inspected
from tests.docker.images import ROOT, WORKER_IMAGE

pytestmark = pytest.mark.usefixtures("docker")

NAMES = (f"kstreams-image-{number}" for number in count())


@pytest.fixture
def name() -> Iterator[str]:
    """Return a container's name; the container and its volume are removed afterwards."""
    container_name = next(NAMES)
    yield container_name
    docker("rm", "--force", "--volumes", container_name)


def test_it_runs_as_a_user_without_rights_and_answers_as_the_command_does():
    assert docker("run", "--rm", WORKER_IMAGE, "--version").stdout.startswith("kstreams-assign ")
    user = docker("run", "--rm", "--entrypoint", "id", WORKER_IMAGE).stdout
    assert "uid=10001" in user
    assert "root" not in user


def test_its_state_is_on_a_volume_and_it_has_a_health_check():
    (image,) = json.loads(docker("image", "inspect", WORKER_IMAGE).stdout)
    config = image["Config"]
    assert list(config["Volumes"]) == ["/var/lib/kstreams-assign"]
    assert config["StopSignal"] == "SIGTERM"
    assert "http://127.0.0.1:8080/live" in config["Healthcheck"]["Test"][-1]


def test_a_missing_file_and_a_wrong_setting_are_reported_in_a_line(name):
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


def test_the_image_contains_nothing_of_the_build():
    tree = docker("run", "--rm", "--entrypoint", "ls", WORKER_IMAGE, "/opt/kstreams-assign/bin", "/").stdout.split()
    assert "kstreams-assign" in tree
    assert not {"pip", "src", "wheels", "constraints.txt"} & set(tree)


def test_the_readme_names_the_image_and_its_parts():
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=python:3\.\d+-slim", dockerfile, re.MULTILINE)
