"""How long `what-if` takes for a large group, and how much memory.

    python -m bench.what_if                      # 500 and 1,000 processes
    python -m bench.what_if 5000x500x1x1         # tasks x processes x threads x standbys

A converged group, saved as `inspect --save` does; then `what-if` of the file as a user runs it, its start included: one
process more, one process less, under the assignor that the group has. One JSON line for each: wall and processor
seconds, peak memory, the size of the file, and the owner changes and rebalances that the group needs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import UUID

from bench.leader import TOPIC, TOPOLOGY, joined
from bench.processes import Json, text_of
from kstreams_assign.group.dialects import DIALECTS
from kstreams_assign.group.leader import DecisionInput, decide, lookups
from kstreams_assign.group.view import read_group
from kstreams_assign.observe.snapshot import STABLE, DescribedMember, GroupSnapshot, snapshot_text
from kstreams_assign.peer.bench_problem import END_OFFSET_SUM, Problem, Size, read
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_consumer_assignment,
    encode_consumer_subscription,
)

CASES = ("5000x500x1x1", "10000x1000x1x0")
GROUP, ASSIGNOR, USER_DATA = "bench", "least_movement", "apache"
CHANGES = (("--add", "1"), ("--remove", str(UUID(int=0))))


def main(cases: Sequence[str]) -> None:
    """Print a JSON line for each case and change."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "group.json")
        for case in cases or CASES:
            file.write_text(snapshot_text(converged(case)))
            for change in CHANGES:
                print(json.dumps({"group": case, "change": " ".join(change), **measure(file, change)}), flush=True)


def converged(case: str) -> GroupSnapshot:
    """Return the group as a broker describes it at rest: each process reports and has what it had before.

    A group whose record a broker refuses by default (10000x1000x1x1) decides as Java does, so nothing is known of ours.
    """
    held, _ = text_of([sys.executable, "-m", "kstreams_assign.peer.bench_call", case, ASSIGNOR, "held"])
    size = Size.parse(case)
    members = list(joined(read(held), size.threads, USER_DATA))
    counts = {TOPIC: size.tasks}
    ends = dict.fromkeys(lookups(TOPOLOGY, GROUP, counts).end_offsets, END_OFFSET_SUM)
    question = DecisionInput(GROUP, TOPOLOGY, ASSIGNOR, Problem(size).config, UUID(int=0), counts, ends, now_ms=0)
    decision = decide(read_group(members, DIALECTS[USER_DATA]), question)
    return GroupSnapshot(
        group=GROUP,
        state=STABLE,
        protocol_type="consumer",
        protocol=DIALECTS[USER_DATA].protocol_name,
        members=tuple(
            DescribedMember(
                member.member_id,
                client_id=member.member_id,
                client_host="/127.0.0.1",
                instance_id=None,
                subscription=encode_consumer_subscription(
                    ConsumerSubscription(1, member.topics, member.user_data, member.owned)
                ),
                assignment=encode_consumer_assignment(ConsumerAssignment(1, given.partitions, given.user_data)),
            )
            for member in members
            for given in (decision.assignments[member.member_id],)
        ),
        taken_ms=0,
        partition_counts={**counts, **{partition.topic: size.tasks for partition in ends}},
        end_offsets=ends,
        begin_offsets=dict.fromkeys(ends, 0),
    )


def measure(file: Path, change: Sequence[str]) -> Json:
    """Ask ``what-if`` for the change in a process of its own, its start included."""
    command = [sys.executable, "-m", "kstreams_assign", "what-if", str(file), *change]
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    said, rss_mib = text_of([*command, "--assignor", ASSIGNOR, "--restore-rate", "100000", "--json"])
    took, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    (outcome,) = json.loads(said)["alternatives"]
    return {
        "seconds": round(took, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mib": rss_mib,
        "file_kb": file.stat().st_size // 1000,
        "played": {fact: outcome[fact] for fact in ("owner_changes", "lower_bound", "rebalances", "seconds")},
    }


if __name__ == "__main__":
    main(sys.argv[1:])
