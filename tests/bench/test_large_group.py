"""The measurement of large groups, with a small one."""

from __future__ import annotations

import pytest

from bench.large_group import __main__ as large_group

MEMBERS, TASKS = 6, 24


def test_a_group_joins_grows_shrinks_and_rests(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_group, "IDLE_S", 2.0)
    options = large_group.parse(
        ["--members", str(MEMBERS), "--tasks", str(TASKS), "--setting", "early_probing_floor_ms=1000"]
    )
    large_group.create_topics(broker, TASKS)
    with large_group.Group(broker, options) as group:
        started, grown, shrunk, idle = group.start(), group.join(), group.leave(), group.idle()
    assert all(phase["seconds"] > 0 for phase in (started, grown, shrunk, idle))
    assert started["reasons"]["first join"] == MEMBERS
    assert grown["rounds"] >= 2, "the newcomer's tasks were warmed up"
    assert grown["changed"] >= TASKS // (MEMBERS + 1)
    assert shrunk["reasons"] == {"the group rebalances": MEMBERS}
    assert (idle["joins"], idle["lost"]) == (0, 0)
    assert large_group.largest_group_record(broker) > MEMBERS * 100
