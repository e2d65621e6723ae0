"""The demo as a user calls it, from its broker to its last line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.timeout(300)  # a minute, on an idle machine
def test_the_demo_loses_nothing_and_moves_no_task_in_vain(broker, tmp_path):  # noqa: ARG001  # where a broker can run
    facts, page = tmp_path / "demo.json", tmp_path / "demo.html"
    command = [
        sys.executable,
        "-m",
        "kstreams_assign",
        "demo",
        "--plain",
        "--json",
        str(facts),
        "--report",
        str(page),
        "--orders-per-s",
        "1000",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    summary = json.loads(facts.read_text())
    assert (summary["lost"], summary["never_in_output"], summary["unknown"]) == (0, 0, 0)
    assert summary["records_counted"] == summary["records_in"] > 0
    assert summary["owner_changes"] == summary["owner_changes_lower_bound"]
    assert summary["probing_rebalances"] == 1
    assert "early: " in ended.stderr
    assert [move["cause"] for move in summary["moves"] if move["warm"]].count("rebalance") == 2
    assert summary["commits_refused"] == 0
    drawn = page.read_text()
    assert all(f"w{worker} processes" in drawn for worker in (1, 2, 3))
    assert "keeps a warm-up of" in drawn
    assert "no worker processes" in drawn
