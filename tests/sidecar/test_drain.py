"""A sidecar drains when its application or the command asks for it: it ends, and the other process has every task."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.errors import ConfigError, SidecarDisconnected
from kstreams_assign.events import AssignedEvent
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.command import signal_worker
from tests.sidecar.shop import PARTITIONS, WITHIN_S, Shop, add_up_until
from tests.sidecar.test_command import COMMAND, ended, write_config

ORDERS = [b"customer-%d" % (n % 53) for n in range(2_000)]
DRAIN = [sys.executable, "-m", "kstreams_assign", "drain", "--config"]


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield running_shop
    running_shop.stop()


def test_the_command_empties_a_worker_and_waits_for_its_end(shop: Shop) -> None:
    shop.send(ORDERS)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    config = write_config(shop)
    with subprocess.Popen([*COMMAND, config], text=True, **pipes) as process, ended(process):
        log = map(json.loads, process.stdout)
        next(event for event in log if event["event"] == "listening")
        with shop.connect() as session:
            add_up_until(session, shop)
        other = shop.start(2)
        other.until_event(AssignedEvent)
        asked = subprocess.run([*DRAIN, config], capture_output=True, text=True, timeout=200, check=False)
        assert (asked.returncode, asked.stdout) == (0, ""), asked.stderr
        assert f"process {process.pid} has ended" in asked.stderr
        assert process.wait(WITHIN_S) == 0
        rest = list(log)
    assert "drain_refused" not in {event["event"] for event in rest}
    other.until_running(PARTITIONS)
    repeated = subprocess.run([*DRAIN, config], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert repeated.returncode == 1
    assert "no worker of" in repeated.stderr
    with shop.connect(2) as session:
        shop.send(ORDERS)
        add_up_until(session, shop)


def test_a_worker_that_has_ended_meanwhile_needs_no_signal():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    signal_worker(process.pid, signal.SIGUSR1)


def test_a_worker_of_another_user_is_a_wrong_call(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    with pytest.raises(ConfigError, match=r"process 7: .* run this command as the user of the worker"):
        signal_worker(7, signal.SIGUSR1)


def work_on(session: SidecarClient) -> None:
    while True:
        session.poll(timeout_ms=500)
        session.commit()


def test_an_application_can_request_a_drain_and_works_until_the_worker_hangs_up(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start(1)
    with shop.connect(1) as session:
        add_up_until(session, shop)
        other = shop.start(2)
        other.until_event(AssignedEvent)
        session.drain()
        with pytest.raises(SidecarDisconnected):
            work_on(session)
    other.until_running(PARTITIONS)


def test_a_drain_without_a_state_directory_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "worker.toml"
    lines = [
        'application_id = "app"',
        'bootstrap_servers = "localhost:1"',
        'socket = "x.sock"',
        f"state_dir = {json.dumps(str(tmp_path / 'none'))}",
    ]
    config.write_text("\n".join([*lines, "[[topology.subtopology]]", "sources = ['a']"]), encoding="utf-8")
    done = subprocess.run([*DRAIN, config], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 2
    assert "no process of 'app' has used it" in done.stderr


@pytest.mark.parametrize("how", ["drain --restart", "sigterm"])
def test_a_worker_that_ends_for_a_restart_announces_it(shop: Shop, how: str) -> None:
    shop.send(ORDERS)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    config = write_config(shop)
    command = [*COMMAND, config, "--set", "sigterm=restart"]
    with subprocess.Popen(command, text=True, **pipes) as process, ended(process):
        log = map(json.loads, process.stdout)
        next(event for event in log if event["event"] == "listening")
        with shop.connect() as session:
            add_up_until(session, shop)
        if how == "sigterm":
            process.terminate()
        else:
            asked = subprocess.run(
                [*DRAIN, config, "--restart"], capture_output=True, text=True, timeout=WITHIN_S, check=False
            )
            assert asked.returncode == 0, asked.stderr
            assert f"process {process.pid} ends for a restart" in asked.stderr
        assert process.wait(WITHIN_S) == 0
        assert [event["awaited"] for event in log if event["event"] == "restart_announced"] == [False], "it is alone"


def test_an_application_can_ask_for_a_restart(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start(1)
    with shop.connect(1) as session:
        add_up_until(session, shop)
        session.restart()
        with pytest.raises(SidecarDisconnected):
            work_on(session)
