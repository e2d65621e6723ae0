"""A peer that answers as ours but for one detail: what ``compare`` has to find."""

from __future__ import annotations

import sys

from kstreams_assign.peer.lines import converse
from tests.peer.golden_lines import ANSWERS


def lie(answer):
    """Changes one thing in the answer, deep inside where there is an inside."""
    for key in ("clients", "consumers", "hex"):
        if answer.get(key):
            return answer | {key: lie(answer[key]) if isinstance(answer[key], dict) else answer[key][:-2] + "7f"}
    first = next(iter(answer), None)
    return {other: value for other, value in answer.items() if other != first}


def main(sub):
    converse(sys.stdin.buffer, sys.stdout, lambda request: lie(ANSWERS[sub](request)))


if __name__ == "__main__":
    main(sys.argv[1])
