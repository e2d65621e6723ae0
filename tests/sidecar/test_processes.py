"""``kstreams-assign worker --processes``: sidecars with a socket and a state directory each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.events import AssignedEvent
from kstreams_assign.sidecar.address import TcpAddress, numbered_address, read_address, refuse_shared_socket
from tests.processes.conftest import track  # noqa: F401  # a fixture
from tests.processes.supervised import Supervised
from tests.sidecar.shop import PARTITIONS, WITHIN_S, Shop, add_up, add_up_until
from tests.sidecar.test_drain import DRAIN

ORDERS = [b"customer-%d" % (n % 53) for n in range(2_000)]


def write_config(folder: Path, settings: dict[str, object], topology: str) -> Path:
    path = folder / "worker.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if key != "topology"]
    path.write_text("\n".join([*lines, "[[topology.subtopology]]", topology]), encoding="utf-8")
    return path


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield running_shop
    running_shop.stop()


def test_each_sidecar_has_its_socket_and_the_drain_command_ends_all(shop: Shop, track: Callable) -> None:  # noqa: F811
    shop.send(ORDERS)
    settings = shop.settings(socket=str(shop.folder / "{n}.sock"), http="127.0.0.1:0", state_dir=str(shop.folder / "s"))
    topology = f'sources = ["{shop.name}"]\nstores = ["totals"]\nsinks = ["{shop.output}"]'
    config = write_config(shop.folder, settings, topology)
    supervised = track(Supervised(["worker", "--config", config, "--processes", "2"]))
    supervised.until_spread(PARTITIONS)
    assert sorted(path.name for path in (shop.folder / "s").iterdir()) == ["0", "1"]
    with shop.connect(0) as first, shop.connect(1) as second:
        assert first.welcome["process_id"] != second.welcome["process_id"]
        while shop.committed() != shop.sent:
            for session in (first, second):
                add_up_once(session)
    shop.start(9).until_event(AssignedEvent)
    drained = subprocess.run([*DRAIN, config], capture_output=True, text=True, timeout=200, check=False)
    assert (drained.returncode, drained.stderr.count("has ended")) == (0, 2), drained.stderr
    assert supervised.wait() == 0
    with shop.connect(9) as session:
        shop.send(ORDERS)
        add_up_until(session, shop)


def add_up_once(session) -> None:
    while add_up(session):
        session.commit()


@pytest.mark.parametrize(
    ("settings", "options", "says"),
    [
        (
            {"socket": "app.sock"},
            ["--processes", "2"],
            "socket = 'app.sock': must contain {n} for 2 processes, as in 'app-{n}.sock'",
        ),
        ({"socket": "app-{n}.sock"}, ["--drain"], "--drain: needs --processes"),
    ],
)
def test_a_wrong_call_is_exit_2_and_one_line(tmp_path, settings, options, says):
    given = {"application_id": "app", "bootstrap_servers": "localhost:1", **settings}
    config = write_config(tmp_path, given, "sources = ['a']")
    command = [sys.executable, "-m", "kstreams_assign", "worker", "--config", config, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_number_replaces_the_pattern_in_a_path_and_is_added_to_a_port():
    assert str(numbered_address(read_address("run/app-{n}.sock"), 3)) == "run/app-3.sock"
    assert numbered_address(read_address("tcp://127.0.0.1:9100"), 3) == TcpAddress("127.0.0.1", 9103)
    assert numbered_address(read_address("tcp://[::1]:0"), 3) == TcpAddress("::1", 0)


def test_one_process_needs_no_pattern_and_ports_must_exist():
    refuse_shared_socket(read_address("app.sock"), 1)
    refuse_shared_socket(read_address("app-{n}.sock"), 2)
    refuse_shared_socket(read_address("tcp://127.0.0.1:65534"), 2)
    with pytest.raises(ConfigError, match=r"tcp://127\.0\.0\.1:65536"):
        refuse_shared_socket(read_address("tcp://127.0.0.1:65534"), 3)
