"""Requests with the answers of Kafka 4.3.1's own classes.

``compare.py --keep`` made the files named after a sub-command; ``by-hand.jsonl`` holds raw lines for the edge cases,
most of them refused (``"error": true``).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from kstreams_assign.peer.codecs import (
    decode_assignment_line,
    decode_subscription_line,
    encode_assignment_line,
    encode_subscription_line,
)
from kstreams_assign.peer.decisions import assign, assign_threads
from kstreams_assign.peer.lines import reply
from kstreams_assign.peer.streams_groups import assign_streams_group

FOLDER = Path(__file__).parent
GOLDEN = FOLDER / "golden"
ASSIGN_GOLDEN = FOLDER.parent / "assign"

ANSWERS = {
    "assign": assign,
    "assign-threads": assign_threads,
    "assign-streams-group": assign_streams_group,
    "encode-subscription": encode_subscription_line,
    "decode-subscription": decode_subscription_line,
    "encode-assignment": encode_assignment_line,
    "decode-assignment": decode_assignment_line,
}


@cache
def cases(path: Path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ours(sub: str, request):
    return json.loads(reply(json.dumps(request).encode(), ANSWERS[sub]))


def refusals_alike(answer):
    """Return an answer in comparable form: of a refusal only the fact and the id count."""
    return answer | {"error": True} if "error" in answer else answer
