"""``broker start`` and ``broker stop`` as a script uses them: two processes, JSON between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from kstreams_assign.adapters.cache import cache_dir
from kstreams_assign.local import leftovers
from kstreams_assign.local.detached import DetachedBroker, running_brokers
from kstreams_assign.local.probe import brokers_known

pytestmark = pytest.mark.broker


@pytest.fixture
def call(tmp_path):
    """Runs the command line with a cache of its own (sharing the jars); ends its brokers afterwards."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars").symlink_to(cache_dir() / "jars")
    environment = os.environ | {"KSTREAMS_ASSIGN_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kstreams_assign", "broker", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)

    yield run
    for record in (tmp_path / "cache").glob("running/*.json"):
        run("stop", "--pid", record.stem)


def alive(pid: int) -> bool:
    """Whether the process still does anything; an orphan that its new parent has not buried yet does not."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_start_prints_the_promised_facts_and_stop_ends_that_broker(call, monkeypatch, tmp_path):
    started = call("start", "--json")
    facts = json.loads(started.stdout)
    assert (started.returncode, started.stdout.count("\n")) == (0, 1)
    assert list(facts) == ["bootstrap_servers", "version", "pid", "data_dir"]
    assert brokers_known(int(facts["bootstrap_servers"].rpartition(":")[2]), 60) == 1
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert leftovers.sweep(older_than_s=-1) == []  # its starter has ended, but it holds its folder itself
    stopped = call("stop", "--json")
    assert (stopped.returncode, json.loads(stopped.stdout)) == (0, facts)
    assert not alive(facts["pid"])
    assert not Path(facts["data_dir"]).exists()


def test_two_brokers_must_be_distinguished_and_a_named_folder_has_one_broker_and_is_kept(call, tmp_path):
    first = json.loads(call("start", "--json", "--data-dir", str(tmp_path / "one")).stdout)
    refused = call("start", "--data-dir", str(tmp_path / "one"))
    assert (refused.returncode, str(first["pid"]) in refused.stderr) == (2, True)
    port = first["bootstrap_servers"].rpartition(":")[2]
    taken = call("start", "--port", port)
    assert taken.returncode == 2
    assert f"--port {port}: the broker with process id {first['pid']} on {tmp_path / 'one'} listens" in taken.stderr
    assert f"kstreams-assign broker stop --pid {first['pid']}" in taken.stderr
    second = json.loads(call("start", "--json").stdout)
    unclear = call("stop")
    assert (unclear.returncode, "--pid" in unclear.stderr) == (2, True)
    stopped = call("stop", "--data-dir", str(tmp_path / "one"))
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout == (
        f"stopped the broker at {first['bootstrap_servers']}, process {first['pid']}\n"
        f"its data in {tmp_path / 'one'}: kept\n"
    )
    assert (tmp_path / "one" / "records" / "meta.properties").exists()
    assert json.loads(call("stop", "--json").stdout) == second


def test_people_read_what_to_do_next_and_that_the_broker_stopped(call):
    started = call("start")
    facts = dict(line.split(": ", 1) for line in started.stdout.splitlines())
    assert list(facts) == ["bootstrap_servers", "version", "pid", "data_dir"]
    assert f"next: kstreams-assign topic list -b {facts['bootstrap_servers']}\n" in started.stderr
    stopped = call("stop")
    assert stopped.stdout.startswith(f"stopped the broker at {facts['bootstrap_servers']}, process {facts['pid']}\n")
    assert stopped.stdout.endswith(f"its data in {facts['data_dir']}: deleted\n")


@pytest.mark.parametrize(
    ("words", "where"), [((), ""), (("--pid", "1"), " as process 1"), (("--data-dir", "/no/folder"), " on /no/folder")]
)
def test_stop_without_a_broker_is_exit_1_with_a_message_on_standard_error(call, words, where):
    done = call("stop", *words)
    message = f"no broker that broker start started runs on this machine{where}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_a_broker_that_died_by_itself_is_forgotten_with_its_data(call):
    facts = json.loads(call("start", "--json").stdout)
    jvm = psutil.Process(facts["pid"])
    jvm.kill()
    deadline = time.monotonic() + 60
    while alive(jvm.pid):  # an unreaped zombie counts as dead here
        assert time.monotonic() < deadline
    assert call("stop").returncode == 1
    assert not Path(facts["data_dir"]).exists()


def test_a_stranger_with_the_process_id_of_a_dead_broker_is_left_alone(monkeypatch, tmp_path):
    """This very test run plays the stranger: it must survive."""
    monkeypatch.setenv("KSTREAMS_ASSIGN_CACHE", str(tmp_path))
    stranger = DetachedBroker("127.0.0.1:1", "4.3.1", os.getpid(), tmp_path / "data", keeps_data=True)
    (tmp_path / "running").mkdir()
    record = tmp_path / "running" / f"{stranger.pid}.json"
    record.write_text(json.dumps(stranger.facts() | {"keeps_data": True}))
    assert not stranger.runs
    assert running_brokers() == []
    assert not record.exists()


def test_jars_that_cannot_be_cached_are_exit_3_with_the_remedy(tmp_path):
    environment = {"PATH": "", "HOME": str(tmp_path), "KSTREAMS_ASSIGN_CACHE": "/dev/null/none"}
    command = [sys.executable, "-m", "kstreams_assign", "broker", "start"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "KSTREAMS_ASSIGN_CACHE" in done.stderr
