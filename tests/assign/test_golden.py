"""Problems with the answers that Kafka 4.3.1's own classes gave: ours must be equal, without a Java here.

``differential.py --keep`` made the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.assign.jsonl import Json, answer_assign, answer_threads

HERE = Path(__file__).parent


def golden(name: str) -> Iterator[tuple[Json, Json]]:
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        yield case["request"], case["answer"]


def test_high_availability_answers_as_java_did():
    count = 0
    for number, (request, answer) in enumerate(golden("golden_assign.jsonl")):
        assert answer_assign(request) == answer, f"line {number + 1}"
        count += 1
    assert count >= 300


def test_threads_get_what_java_gave_them_in_its_order():
    count = 0
    for number, (request, answer) in enumerate(golden("golden_assign_threads.jsonl")):
        assert answer_threads(request) == answer, f"line {number + 1}"
        count += 1
    assert count >= 200
