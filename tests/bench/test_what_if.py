"""What ``what-if`` of a saved large group takes, here of a small one."""

from __future__ import annotations

import json

import pytest

from bench.what_if import main


def test_a_process_joins_and_one_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    main(["40x8x1x1"])
    joins, leaves = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert joins["played"]["owner_changes"] == joins["played"]["lower_bound"] == 4
    assert joins["played"]["rebalances"] > 2
    assert (leaves["played"]["owner_changes"], leaves["played"]["rebalances"]) == (0, 1)
    for row in (joins, leaves):
        assert row["cpu_seconds"] > 0
        assert row["peak_mib"] > 0
