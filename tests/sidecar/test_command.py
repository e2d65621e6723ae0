"""``kstreams-assign worker`` as a process: its log, its clean end, its exit status."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest

from kstreams_assign.errors import SidecarDisconnected
from tests.sidecar.shop import PARTITIONS, STORE, WITHIN_S, Shop, add_up, add_up_until

COMMAND = [sys.executable, "-m", "kstreams_assign", "worker", "--json-log", "--config"]
ORDERS = [b"customer-%d" % (n % 53) for n in range(2_000)]


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, request.node.name.translate({ord(c): "-" for c in "_[]"})[:70].lower(), tmp_path)
    yield running_shop
    running_shop.stop()


def write_config(shop: Shop) -> Path:
    settings = shop.settings()
    del settings["topology"]
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines += ["[[topology.subtopology]]", f"sources = [{json.dumps(shop.name)}]", f"stores = [{json.dumps(STORE)}]"]
    path = shop.folder / "worker.toml"
    path.write_text("\n".join([*lines, f"sinks = [{json.dumps(shop.output)}]"]), encoding="utf-8")
    return path


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill the process at the end of the test, if it still runs."""
    try:
        yield
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_the_worker_cleanly_and_the_next_one_continues(shop, number):
    shop.send(ORDERS)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, write_config(shop)], text=True, **pipes) as process, ended(process):
        log = map(json.loads, process.stdout)
        assert next(event for event in log if event["event"] == "listening")["socket"] == str(shop.folder / "1.sock")
        with shop.connect() as session:
            while not add_up(session):
                pass
            session.commit()
            before = shop.committed()
            while add_up(session):
                pass
            process.send_signal(number)
            with pytest.raises(SidecarDisconnected):
                session.poll(timeout_ms=60_000)
        rest = list(log)
        assert process.wait(WITHIN_S) == 0, process.stderr.read()
    assert rest[-1]["event"] == "closed"
    assigned = next(event for event in rest if event["event"] == "assigned")
    assert {"time_ms", "event", "generation", "active", "standby"} <= assigned.keys()
    assert shop.committed() == before
    shop.start().until_running(PARTITIONS)
    with shop.connect() as session:
        add_up_until(session, shop)


def test_the_log_on_standard_error_has_times_and_levels_and_no_lines_of_the_kafka_clients(shop):
    command = [argument for argument in COMMAND if argument != "--json-log"]
    with subprocess.Popen([*command, write_config(shop)], text=True, stderr=subprocess.PIPE) as process, ended(process):
        lines = list(takewhile(lambda line: " gives this member " not in line, process.stderr))
        process.send_signal(signal.SIGTERM)
        lines += process.stderr
        assert process.wait(WITHIN_S) == 0, lines
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO    "
    assert [line for line in lines if not re.match(stamp, line)] == []
    texts = [re.sub(stamp, "", line).strip() for line in lines]
    assert f"The sidecar waits for its application at {shop.folder / '1.sock'}." in texts
    assert texts[-1] == "This worker is closed."


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"socket": "tcp://10.0.0.1:1"}, 2, "on loopback only"),
        ({"max_warmup_replicas": 0}, 2, "max_warmup_replicas = 0: must be a whole number >= 1"),
    ],
)
def test_a_wrong_setting_is_exit_2_and_one_line(tmp_path, change, status, says):
    settings = {"application_id": "app", "bootstrap_servers": "localhost:1", "socket": "x.sock", **change}
    path = tmp_path / "worker.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    path.write_text("\n".join([*lines, "[[topology.subtopology]]", "sources = ['a']"]), encoding="utf-8")
    done = subprocess.run([*COMMAND, path], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
