"""A bounded number of hostile frames; ``python -m tests.sidecar.fuzz`` sends any number of them."""

from __future__ import annotations

from tests.samples import BRIEF
from tests.sidecar.fuzz import run


def test_the_machine_keeps_its_promises_for_any_bytes():
    summary = run(4_000 if BRIEF else 20_000, seed=7)
    assert summary["sessions"] > 100
    assert {"ok", "bad_request", "malformed"} <= summary["answers"].keys()
