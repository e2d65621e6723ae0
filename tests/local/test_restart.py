"""``restart``, ``kill`` and ``start`` in any order, with a JVM that is taken for a broker at once."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker, broker
from tests.local.fake_java import fake_java


@pytest.fixture(autouse=True)
def answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in fake_java(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(broker, "brokers_known", lambda *_, **__: 1)


def test_a_stopped_broker_cannot_be_restarted(tmp_path: Path) -> None:
    stopped = LocalBroker(data_dir=tmp_path / "data").start()
    stopped.stop()
    with pytest.raises(LocalBrokerError, match=r"nothing to restart: call start\(\) first"):
        stopped.restart()


def test_a_restart_that_the_system_refuses_is_a_local_broker_error(tmp_path: Path) -> None:
    with LocalBroker(data_dir=tmp_path / "data") as running:
        running.kill()
        settings = tmp_path / "data" / "server.properties"
        settings.unlink()
        settings.mkdir()
        with pytest.raises(LocalBrokerError, match=f"cannot start on {tmp_path / 'data'}"):
            running.restart()


def test_a_start_after_a_kill_holds_the_folder_once_and_a_stop_lets_it_go(tmp_path: Path) -> None:
    again = LocalBroker(data_dir=tmp_path / "data").start()
    again.kill()
    again.start()
    assert _locks(tmp_path) == 1
    again.stop()
    assert _locks(tmp_path) == 0


def test_a_start_after_a_kill_ends_the_controller_which_uses_another_port(tmp_path: Path) -> None:
    with LocalBroker(data_dir=tmp_path / "data", controller_apart=True) as running:
        before = running._controller
        running.kill()
        running.start()
        assert before is not None
        assert before.ended()
        assert running._controller is not before


def _locks(folder: Path) -> int:
    return sum(file.path == str(folder / "data" / "held.lock") for file in psutil.Process().open_files())
