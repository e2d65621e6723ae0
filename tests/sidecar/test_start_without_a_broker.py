"""A sidecar that is started while its broker is away waits for it as long as a worker does."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.sidecar import sidecar
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.worker import runtime
from tests.adapters.confluent_cluster import closed_port
from tests.processes.supervised import Supervised

ENDS_WITHIN_S = 15.0
"""Far less than the 30 s of the wait."""


@pytest.mark.parametrize("source", [{"sources": ["in"]}, {"sources_pattern": "in-.*"}])
def test_a_sidecar_ends_after_one_wait_with_the_address_and_what_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, object]
) -> None:
    monkeypatch.setattr(runtime, "FIRST_ANSWER_S", 0.5)
    address = closed_port()
    settings = SidecarSettings.from_mapping(
        {
            "application_id": "alone",
            "bootstrap_servers": address,
            "state_dir": str(tmp_path / "state"),
            "socket": str(tmp_path / "app.sock"),
            "topology": {"subtopology": [source]},
        }
    )
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match=f"bootstrap_servers = '{address}': no broker answered .*; check that"):
        sidecar.Sidecar(settings).run()
    assert time.monotonic() - began < sidecar.LOOKUP_TIMEOUT_S
    assert not (tmp_path / "app.sock").exists()


@pytest.mark.parametrize(
    ("number", "options"), [(signal.SIGTERM, ()), (signal.SIGHUP, ()), (signal.SIGTERM, ("--processes", "1"))]
)
def test_a_sidecar_that_is_asked_to_end_stops_waiting_for_its_first_broker(
    tmp_path: Path, number: signal.Signals, options: tuple[str, ...]
) -> None:
    settings = tmp_path / "worker.toml"
    lines = ['application_id = "alone"', f'bootstrap_servers = "{closed_port()}"', 'socket = "app.sock"']
    settings.write_text("\n".join([*lines, "[[topology.subtopology]]", 'sources = ["in"]']), encoding="utf-8")
    with ExitStack() as at_end:
        process = Supervised(["worker", "--config", settings, *options], tmp_path)
        at_end.callback(process.clean_up)
        process.until_line("No broker has answered")
        began = time.monotonic()
        process.popen.send_signal(number)
        assert process.popen.wait(sidecar.LOOKUP_TIMEOUT_S) == 0, process.lines
        assert time.monotonic() - began < ENDS_WITHIN_S
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "worker.toml"]
