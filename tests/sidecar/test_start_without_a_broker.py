"""A sidecar that is started while its broker is away waits for it as long as a worker does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.sidecar import sidecar
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.worker import runtime
from tests.adapters.confluent_cluster import closed_port


@pytest.mark.parametrize("source", [{"sources": ["in"]}, {"sources_pattern": "in-.*"}])
def test_a_sidecar_ends_after_one_wait_with_the_address_and_what_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, object]
) -> None:
    assert sidecar.FIRST_ANSWER_S == runtime.FIRST_ANSWER_S
    monkeypatch.setattr(sidecar, "FIRST_ANSWER_S", 0.5)
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
        sidecar.Sidecar(settings)
    assert time.monotonic() - began < sidecar.LOOKUP_TIMEOUT_S
    assert not (tmp_path / "app.sock").exists()
