"""What ``assign`` has in addition to Java's: other assignors, and warm-ups apart from standbys."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest

from kstreams_assign import assign as assign_room
from kstreams_assign.assign import ASSIGNORS, Placement, Plan
from kstreams_assign.peer import decisions
from tests.peer import problems
from tests.peer.golden_lines import ours


def joining():
    """Two tasks run on one process; another process is new and gets only a warm-up."""
    owner = {"process_id": "0-0-0-0-1", "task_offset_sums": {"0_0": -2, "0_1": -2}}
    return {
        "assignor": "high_availability",
        "stateful_tasks": ["0_0", "0_1"],
        "task_end_offset_sums": {"0_0": 50_000, "0_1": 50_000},
        "clients": [owner, {"process_id": "0-0-0-0-2"}],
    }


def test_warm_ups_are_listed_separately_on_request():
    new = "00000000-0000-0000-0000-000000000002"
    together = ours("assign", joining())
    apart = ours("assign", joining() | {"split_warmups": True})
    assert together["clients"][new] == {"active": [], "standby": ["0_1"]}
    assert apart["clients"][new] == {"active": [], "standby": [], "warmup": ["0_1"]}
    assert together["probing_rebalance"] is apart["probing_rebalance"] is True


@pytest.mark.parametrize("name", ASSIGNORS)
def test_every_assignor_answers_by_its_name_and_places_each_task_once(name):
    random = Random(name)
    for _ in range(20):
        request = problems.assign(random, name)
        answer = ours("assign", request)
        placed = sorted(chain.from_iterable(client["active"] for client in answer["clients"].values()))
        assert placed == sorted(request["stateful_tasks"] + request["stateless_tasks"])


def test_assignors_are_looked_up_on_request(monkeypatch):
    def nothing(cluster, _config):
        return Plan({client.process_id: Placement() for client in cluster.clients}, probing=False)

    monkeypatch.setattr(decisions, "ASSIGNORS", {**assign_room.ASSIGNORS, "nothing": nothing})
    answer = ours("assign", joining() | {"assignor": "nothing"})
    assert all(client == {"active": [], "standby": []} for client in answer["clients"].values())


def test_consumers_equal_a_flat_client_with_as_many_threads():
    flat = joining() | {"explain": True}
    flat["clients"][0]["threads"] = 2
    request = joining() | {"explain": True}
    request["clients"][0] = {
        "process_id": "0-0-0-0-1",
        "consumers": [
            {"id": "a", "task_offset_sums": {"0_0": 17}},
            {"id": "b", "task_offset_sums": {"0_0": -2, "0_1": -2}},
        ],
    }
    assert ours("assign", request) == ours("assign", flat)
