"""``broker start`` with wrong arguments or a failing start: no process and no folder is left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kstreams_assign.adapters.cache import cache_dir
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import BrokerError, LocalBrokerError
from kstreams_assign.local import detached
from tests.samples import sample

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Runs ``broker start`` with a cache and a temporary folder of its own, and checks that nothing is left of it."""
    cache, temporary = tmp_path / "cache", tmp_path / "temporary"
    for folder in (cache, temporary):
        folder.mkdir()
    (cache / "jars").symlink_to(cache_dir() / "jars")
    environment = os.environ | {"KSTREAMS_ASSIGN_CACHE": str(cache), "TMPDIR": str(temporary)}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kstreams_assign", "broker", "start", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment | more, timeout=200, check=False)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("kstreams-assign: "), done.stderr
        assert not [process for process in psutil.process_iter() if _runs_below(process, tmp_path)]
        assert not list(temporary.iterdir())
        return done

    return run


def _runs_below(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and any(str(folder) in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("below", ["", "/folder"])
def test_a_file_is_no_data_folder(call: Call, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("kept")
    done = call("--data-dir", f"{tmp_path}/file{below}")
    assert (done.returncode, "name a folder that this user can write to" in done.stderr) == (2, True)
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("folder", sample(["/proc/nothing", "/dev/null", "/" + "a" * 300, "/sys/kernel"], 2))
def test_a_folder_that_cannot_be_written_is_refused(call: Call, folder: str) -> None:
    done = call("--data-dir", folder)
    assert (done.returncode, f"--data-dir {folder}: cannot be used" in done.stderr) == (2, True)


def test_a_circle_of_links_and_a_comma_are_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert call("--data-dir", str(tmp_path / "circle" / "x")).returncode == 2
    assert "a comma" in call("--data-dir", str(tmp_path / "a,b")).stderr
    assert not (tmp_path / "a,b").exists()


def test_a_wrong_topic_starts_nothing(call: Call, tmp_path: Path) -> None:
    done = call("--topic", "a b:1", "--data-dir", str(tmp_path / "made"))
    assert (done.returncode, "'a b' cannot be the name" in done.stderr) == (2, True)
    assert not (tmp_path / "made").exists()


@pytest.mark.broker
def test_a_port_that_is_taken_leaves_no_folder(call: Call, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = call("--port", str(taken.getsockname()[1]), "--data-dir", str(tmp_path / "a" / "b"))
    assert (done.returncode, "cannot listen there" in done.stderr) == (3, True)
    assert not (tmp_path / "a").exists()


@pytest.mark.broker
def test_a_broker_that_cannot_be_recorded_is_ended(call: Call, tmp_path: Path) -> None:
    (tmp_path / "cache" / "running").write_text("a file where the records would be")
    done = call("--data-dir", str(tmp_path / "made"))
    assert (done.returncode, "name another folder with KSTREAMS_ASSIGN_CACHE" in done.stderr) == (3, True)
    assert not (tmp_path / "made").exists()


@pytest.mark.broker
def test_topics_that_the_broker_refuses_end_it(call: Call, tmp_path: Path) -> None:
    """A legal name that Kafka keeps for itself."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine").write_text("kept")
    done = call("--topic", "__cluster_metadata:1", "--data-dir", str(tmp_path / "kept"))
    assert done.returncode == 3
    assert (tmp_path / "kept" / "mine").read_text() == "kept"


@pytest.mark.broker
def test_an_interrupt_while_topics_are_made_ends_the_broker(tmp_path: Path) -> None:
    addresses: list[str] = []

    def interrupted(bootstrap_servers: str) -> None:
        addresses.append(bootstrap_servers)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        detached.start_detached(tmp_path / "made", prepare=interrupted)
    assert not (tmp_path / "made").exists()
    with pytest.raises(BrokerError):
        ClusterAdmin(addresses[0]).partition_counts(["x"], 1.0)


def test_a_torn_record_is_no_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KSTREAMS_ASSIGN_CACHE", str(tmp_path))
    (tmp_path / "running").mkdir()
    for number, text in enumerate(("", "{", "[]", "7", '{"pid": 1}', '{"data_dir": 7}')):
        (tmp_path / "running" / f"{number}.json").write_text(text)
    assert detached.running_brokers() == []


def test_a_failing_start_is_a_local_broker_error(tmp_path: Path) -> None:
    (tmp_path / "server.properties").mkdir()
    with pytest.raises(LocalBrokerError, match="cannot start on"):
        detached.LocalBroker(data_dir=tmp_path).start()
