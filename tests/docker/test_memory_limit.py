"""A worker in a container of 512 MB, with records of 100 KB: it processes and restores them, and is not killed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.docker.cluster import docker, inspected
from tests.docker.images import ROOT, WORKER_IMAGE
from tests.worker.large_records import produce

pytestmark = [pytest.mark.usefixtures("docker"), pytest.mark.timeout(600)]

RECORDS = 6_000
LIMIT_BYTES = 512 << 20
NAME = "kstreams-memory"


@pytest.fixture
def _container() -> Iterator[None]:
    yield
    docker("rm", "--force", "--volumes", NAME, check=False)


def ran(broker: str, records: int, **settings: str | int) -> dict:
    """Run a worker in a new container under the limit; return the container's state at the end."""
    all_settings = json.dumps({"application_id": "memory", "bootstrap_servers": broker, **settings})
    docker(
        *(
            "create",
            "--name",
            NAME,
            "--network",
            "host",
            "--memory",
            f"{LIMIT_BYTES}",
            "--memory-swap",
            f"{LIMIT_BYTES}",
        ),
        *("--volume", f"{ROOT / 'tests'}:/app/tests:ro", "--env", "PYTHONPATH=/app", "--entrypoint", "python3"),
        *(WORKER_IMAGE, "-m", "tests.worker.large_records", all_settings, "large", str(records)),
    )
    docker("start", NAME)
    docker("wait", NAME, timeout_s=300)
    state: dict = inspected(NAME)["State"]
    log = docker("logs", NAME)
    assert state["ExitCode"] == 0, (state, log.stderr[-2000:])
    state["warned"] = "set memory_limit_bytes = 536870912" in log.stderr
    docker("rm", "--volumes", NAME)
    return state


@pytest.mark.usefixtures("_container")
def test_records_of_100_kilobytes_fit_into_a_container_of_512_megabytes(broker: str) -> None:
    produce(broker, "large", RECORDS)
    processed = ran(broker, RECORDS, memory_limit_bytes=LIMIT_BYTES)
    restored = ran(broker, 0, memory_limit_bytes=LIMIT_BYTES)
    for state in (processed, restored):
        assert not state["OOMKilled"]
        assert not state["warned"]
