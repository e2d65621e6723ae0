"""Our answers to kept requests equal those of Kafka's own classes."""

from __future__ import annotations

import json

import pytest

from kstreams_assign.peer.lines import reply
from tests.peer.golden_lines import ANSWERS, ASSIGN_GOLDEN, GOLDEN, cases, ours, refusals_alike
from tests.wire import golden as wire_golden


@pytest.mark.parametrize(
    "sub", ["assign", "assign-threads", "assign-streams-group", "decode-subscription", "decode-assignment"]
)
def test_answers_equal_javas(sub):
    kept = cases(GOLDEN / f"{sub}.jsonl")
    assert len(kept) >= 40
    for case in kept:
        assert refusals_alike(ours(sub, case["request"])) == refusals_alike(case["answer"]), case["request"]["id"]


@pytest.mark.parametrize("message", ["subscription", "assignment"])
def test_our_bytes_read_as_javas_bytes(message):
    """Java's maps have no order, so bytes are compared by their meaning."""
    kept = cases(GOLDEN / f"encode-{message}.jsonl")
    assert len(kept) >= 40
    for case in kept:
        mine, theirs = ours(f"encode-{message}", case["request"]), case["answer"]
        assert ("error" in mine) == ("error" in theirs), case["request"]["id"]
        if "hex" in mine:
            assert words(message, mine["hex"]) == words(message, theirs["hex"]), case["request"]["id"]


@pytest.mark.parametrize("message", ["subscription", "assignment"])
def test_the_wires_golden_vectors_read_as_java_reads_them(message):
    for case in wire_golden.cases(message):
        for written in ("hex", "ours"):
            assert words(message, case[written]) == case["java_reads"]


@pytest.mark.parametrize(("sub", "file"), [("assign", "golden_assign"), ("assign-threads", "golden_assign_threads")])
def test_the_assignors_golden_problems_get_javas_answer(sub, file):
    for case in cases(ASSIGN_GOLDEN / f"{file}.jsonl"):
        assert ours(sub, case["request"]) == case["answer"]


def test_edges_are_answered_or_refused_as_java_does():
    kept = cases(GOLDEN / "by-hand.jsonl")
    assert len(kept) >= 70
    for case in kept:
        answer = json.loads(reply(case["line"].encode(), ANSWERS[case["sub"]]))
        assert refusals_alike(answer) == case["answer"], case["line"]


def words(message, written):
    read = ours(f"decode-{message}", {"hex": written})
    assert "error" not in read
    read.pop("wire_order", None)
    return read
