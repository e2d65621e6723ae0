"""Fetching jars from a real HTTP server on this machine with faults on demand."""

from __future__ import annotations

import gc
import hashlib
import signal
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import jars
from kstreams_assign.local.jars import KAFKA_VERSION, Jar, class_path, locked_jars

# jgo leaves it to the garbage collector to close the connection of an answer that broke off.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

CONTENT = {f"thing{number}-1.0.jar": f"bytes of jar {number} ".encode() * 1000 for number in range(12)}
JARS = [
    Jar("org.example", f"thing{number}", "1.0", hashlib.sha256(CONTENT[f"thing{number}-1.0.jar"]).hexdigest())
    for number in range(12)
]


class Repository(ThreadingHTTPServer):
    """Serves CONTENT. ``faults`` says how the next answers for a file go wrong: status, silence, cut or wrong bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.faults: dict[str, list[str]] = {}
        self.asked: Counter[str] = Counter()
        self.first_silence, self.silence_ends = threading.Event(), threading.Event()

    @property
    def address(self) -> dict[str, str]:
        return {"here": f"http://127.0.0.1:{self.server_port}"}


class Answer(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.server.asked[name] += 1
        faults = self.server.faults.get(name, [])
        fault = faults.pop(0) if faults else "none"
        if fault == "silence":
            self.server.first_silence.set()
            self.server.silence_ends.wait()
            return
        if fault == "unavailable after a silence":
            fault = "unavailable" if self.server.first_silence.wait(60) else "none"
        body = CONTENT.get(name)
        if body is None or fault == "unavailable":
            self.send_error(404 if body is None else 503)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write({"cut": body[:100], "wrong": body[::-1]}.get(fault, body))

    def log_message(self, *args: object) -> None:
        """Nothing: the test's own output is enough."""


@pytest.fixture
def repository():
    gc.freeze()  # so that collecting below looks at what the test made, and not at all modules
    with Repository() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.silence_ends.set()
        server.shutdown()
    gc.collect()  # while the warning above is still ignored
    gc.unfreeze()


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """The pauses that fetching asked for, in seconds; none is made."""
    asked: list[float] = []
    monkeypatch.setattr(jars, "_pause", lambda seconds, _ended: asked.append(seconds))
    return asked


def fetch(repository, cache, said=None):
    said = [] if said is None else said
    return class_path(JARS, cache=cache, progress=said.append, repositories=repository.address)


def test_jars_are_fetched_in_order_and_progress_is_reported(repository, tmp_path):
    said: list[str] = []
    paths = fetch(repository, tmp_path, said)
    assert [path.name for path in paths] == list(CONTENT)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert said[0] == f"fetching 12 jars into {tmp_path / 'jars'} (once)"
    size_mb = sum(map(len, CONTENT.values())) / 1e6
    assert said[1].startswith("  5 of 12 jars, 0.")
    assert said[-1] == f"  12 of 12 jars, {size_mb:.1f} MB"


def test_a_second_start_uses_no_network(repository, tmp_path):
    fetch(repository, tmp_path)
    repository.asked.clear()
    said: list[str] = []
    fetch(repository, tmp_path, said)
    assert not repository.asked
    assert not said


@pytest.mark.parametrize("fault", ["cut", "wrong", "unavailable"])
def test_a_fetch_that_goes_wrong_three_times_is_tried_after_longer_and_longer_pauses(
    repository, tmp_path, pauses, fault
):
    repository.faults["thing3-1.0.jar"] = [fault] * 3
    assert fetch(repository, tmp_path)[3].read_bytes() == CONTENT["thing3-1.0.jar"]
    assert pauses == [1, 2, 4]


@pytest.mark.parametrize("fault", ["cut", "wrong", "unavailable"])
def test_a_fetch_that_stays_broken_names_the_jar_the_cache_and_the_remedy(repository, tmp_path, fault):
    repository.faults["thing3-1.0.jar"] = [fault] * 9
    with pytest.raises(LocalBrokerError) as caught:
        fetch(repository, tmp_path)
    text = str(caught.value)
    assert "thing3-1.0.jar" in text
    assert str(tmp_path / "jars") in text
    assert "start again" in text
    assert "KSTREAMS_ASSIGN_CACHE" in text


@pytest.mark.parametrize("fault", ["cut", "wrong", "unavailable"])
def test_after_a_broken_fetch_nothing_half_written_stays_and_the_next_start_fetches_only_the_rest(
    repository, tmp_path, fault
):
    repository.faults["thing3-1.0.jar"] = [fault] * 4
    with pytest.raises(LocalBrokerError):
        fetch(repository, tmp_path)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "jars").iterdir()}
    assert kept == {name: body for name, body in CONTENT.items() if name in kept}
    assert "thing3-1.0.jar" not in kept
    repository.asked.clear()
    assert [path.read_bytes() for path in fetch(repository, tmp_path)] == list(CONTENT.values())
    assert {name for name in repository.asked if name in CONTENT} == set(CONTENT) - set(kept)


def test_no_server_at_all_is_a_local_broker_error(repository, tmp_path):
    repository.server_close()
    with pytest.raises(LocalBrokerError, match=r"thing0-1\.0\.jar"):
        class_path(JARS[:1], cache=tmp_path, progress=lambda _: None, repositories=repository.address)


def test_a_jar_that_failed_for_good_ends_the_tries_of_the_others(repository, tmp_path):
    """The other one still waits for its first answer."""
    repository.faults = {"thing0-1.0.jar": ["silence"] * 9, "thing1-1.0.jar": ["unavailable after a silence"] * 9}
    with pytest.raises(LocalBrokerError, match=r"thing1-1\.0\.jar"):
        class_path(JARS[:2], cache=tmp_path, progress=lambda _: None, repositories=repository.address)
    assert repository.asked["thing0-1.0.jar"] == 1
    assert "jars" in [thread.name for thread in threading.enumerate()]
    assert not list((tmp_path / "jars").iterdir())


INTERRUPTED = """
import sys
from pathlib import Path
from kstreams_assign.local.jars import Jar, class_path
class_path([Jar("org.example", "thing0", "1.0", "")], cache=Path(sys.argv[1]), repositories={"here": sys.argv[2]})
"""


def test_ctrl_c_does_not_wait_for_a_silent_server(repository, tmp_path):
    repository.faults["thing0-1.0.jar"] = ["silence"] * 9
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), repository.address["here"]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert repository.first_silence.wait(60)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)  # less than the silence that a try bears
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT, errors
    assert not list((tmp_path / "jars").iterdir())


def test_a_cache_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "jars").write_text("a file where the folder should be")
    with pytest.raises(LocalBrokerError, match="cannot be written to"):
        class_path(JARS, cache=tmp_path, progress=lambda _: None)


def test_the_lock_names_the_broker_of_our_version_and_each_jar_once_with_a_whole_digest():
    jars = locked_jars()
    assert [jar.version for jar in jars if jar.artifact == "kafka_2.13"] == [KAFKA_VERSION]
    assert len({jar.file_name for jar in jars}) == len(jars) > 40
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in jars)
