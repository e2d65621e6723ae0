"""The comparison of two peers detects differences, and only relevant ones."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from random import Random

import pytest

from tests.peer import compare, problems
from tests.peer.golden_lines import ours
from tests.peer.streams_problems import streams_group_problem

OURS = f"{sys.executable} -m kstreams_assign peer"
DIFFERING_PEER = f"{sys.executable} {Path(__file__).with_name('differing_peer.py')}"


class Reader:
    """Reads as our own peer, without a process."""

    def __init__(self, sub):
        self.sub = sub

    def ask(self, request):
        return ours(self.sub, request)


@pytest.mark.parametrize("sub", ["assign", "assign-streams-group", "encode-assignment", "decode-subscription"])
def test_a_peer_that_answers_differently_is_detected(sub, capsys):
    assert compare.main([sub, "--one", OURS, "--other", DIFFERING_PEER, "--count", "50"]) == 1
    difference = json.loads(capsys.readouterr().out)
    assert difference["one"] != difference["other"]


def test_equal_peers_show_no_difference_and_their_answers_are_kept(capsys, tmp_path):
    kept = tmp_path / "kept.jsonl"
    assert compare.main(["assign-threads", "--one", OURS, "--count", "5", "--keep", str(kept)]) == 0
    assert len(kept.read_text().splitlines()) == 5
    assert "5 requests" in capsys.readouterr().err


def test_kafkas_own_classes_decide_as_we_do(java_peer):
    assert compare.main(["assign", "--one", shlex.join(java_peer), "--seed", "20", "--count", "60"]) == 0


def test_kafkas_coordinator_assigns_as_we_predict(java_peer):
    one = shlex.join(java_peer)
    assert compare.main(["assign-streams-group", "--one", one, "--seed", "21", "--count", "500"]) == 0


def test_bytes_in_another_order_are_equal_and_other_values_are_not():
    fields = {"version": 11, "latest_supported_version": 11, "process_id": "0-0-0-0-1"}
    first = ours("encode-subscription", fields | {"task_offset_sums": {"0_0": 1, "0_1": 2}})
    turned = ours("encode-subscription", fields | {"task_offset_sums": {"0_1": 2, "0_0": 1}})
    other = ours("encode-subscription", fields | {"task_offset_sums": {"0_0": 1, "0_1": 3}})
    assert first != turned
    assert compare.same(first, turned, Reader("decode-subscription"))
    assert not compare.same(first, other, Reader("decode-subscription"))


def test_of_refusals_only_the_fact_counts():
    refused, reworded = {"id": 1, "error": {"class": "A"}}, {"id": 1, "error": {"class": "B"}}
    assert compare.same(refused, reworded, Reader("decode-subscription"))
    assert not compare.same(refused, {"id": 1, "hex": ""}, Reader("decode-subscription"))
    assert not compare.same(refused, {"id": 2, "error": {}}, Reader("decode-subscription"))


def test_a_seed_determines_the_run():
    for make in (
        problems.assign,
        problems.assign_threads,
        problems.subscription,
        problems.assignment,
        streams_group_problem,
    ):
        assert make(Random(3)) == make(Random(3)) != make(Random(4))
