"""Hostile frames, a bounded number of them; ``python -m tests.worker.sidecar_fuzz`` sends any number of them."""

from __future__ import annotations

from tests.worker.sidecar_fuzz import run


def test_whatever_is_sent_the_machine_keeps_its_promises():
    summary = run(20_000, seed=7)
    assert summary["sessions"] > 100
    assert {"ok", "bad_request", "malformed"} <= summary["answers"].keys()
