"""How large the record of a classic group is, which brokers limit, and what one decision costs its leader.

    python -m bench.record_size                                       # some groups
    python -m bench.record_size 10000x1000x1x0 20000x200x4x1          # tasks x processes x threads x standbys

A converged group, which one more process joins. One JSON line for each: the size of the record as it is sent,
whether a broker takes that by default, and the processor time of the decision.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from time import process_time

from bench.leader import rebalance
from bench.processes import Json, text_of
from kstreams_assign.group.dialects import DIALECTS
from kstreams_assign.group.leader import decide
from kstreams_assign.group.size import RECORD_BYTES_MAX
from kstreams_assign.group.view import read_group

CASES = ("1000x100x1x1", "5000x500x1x1", "10000x1000x1x0", "10000x1000x1x1", "20000x200x1x1", "20000x200x4x1")
ASSIGNOR, USER_DATA = "least_movement", "apache"


def main(cases: Sequence[str]) -> None:
    """Print a JSON line for each case."""
    for case in cases or CASES:
        held, _ = text_of([sys.executable, "-m", "kstreams_assign.peer.bench_call", case, ASSIGNOR, "held"])
        print(json.dumps({"group": case, **measure(case, held)}), flush=True)


def measure(case: str, held: str) -> Json:
    """Decide for this group; ``held`` is what ``bench_call`` prints of it."""
    members, question = rebalance(case, ASSIGNOR, USER_DATA, held)
    began_s = process_time()
    decision = decide(read_group(members, DIALECTS[USER_DATA]), question)
    took_s = process_time() - began_s
    return {
        "members": len(members),
        "record_bytes": decision.record_bytes,
        "brokers_take_it": decision.record_bytes <= RECORD_BYTES_MAX,
        "decision_cpu_ms": round(took_s * 1_000),
        "warnings": list(decision.warnings),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
