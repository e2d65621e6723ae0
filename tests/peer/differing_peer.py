"""A peer whose answers differ from ours in one detail, which ``compare`` must detect."""

from __future__ import annotations

import sys

from kstreams_assign.peer.lines import converse
from tests.peer.golden_lines import ANSWERS


def alter(answer):
    """Return the answer with one change, as deep inside as possible."""
    for key in ("clients", "consumers", "members", "hex"):
        if answer.get(key):
            return answer | {key: alter(answer[key]) if isinstance(answer[key], dict) else answer[key][:-2] + "7f"}
    first = next(iter(answer), None)
    return {other: value for other, value in answer.items() if other != first}


def main(sub):
    converse(sys.stdin.buffer, sys.stdout, lambda request: alter(ANSWERS[sub](request)))


if __name__ == "__main__":
    main(sys.argv[1])
