"""Problems with the answers of Kafka 4.3.1's own classes: our answers must be equal. No Java is needed here.

``differential.py --keep`` made the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.assign.jsonl import Json, answer_assign, answer_threads

FOLDER = Path(__file__).parent


def golden(name: str) -> Iterator[tuple[Json, Json]]:
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        yield case["request"], case["answer"]


@pytest.mark.parametrize("name", ["golden_assign.jsonl", "golden_tags.jsonl", "golden_racks.jsonl"])
def test_high_availability_decides_as_java_did(name):
    count = 0
    for number, (request, answer) in enumerate(golden(name)):
        assert answer_assign(request) == answer, f"line {number + 1}"
        count += 1
    assert count >= 250


def test_the_golden_racks_affect_the_decisions():
    differing = {"min_traffic": 0, "balance_subtopology": 0}
    for request, answer in golden("golden_racks.jsonl"):
        config = request["config"]
        strategy = config["rack_aware_assignment_strategy"]
        if answer_assign(request | {"config": config | {"rack_aware_assignment_strategy": "none"}}) != answer:
            differing[strategy] += 1
    assert min(differing.values()) >= 25


def test_threads_get_what_java_gave_them_in_its_order():
    count = 0
    for number, (request, answer) in enumerate(golden("golden_assign_threads.jsonl")):
        assert answer_threads(request) == answer, f"line {number + 1}"
        count += 1
    assert count >= 200
