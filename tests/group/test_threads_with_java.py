"""Whole decisions for random groups whose processes have several consumers, compared with Kafka's own classes.

Java's task assignor places tasks, Java's ``assignTasksToThreads`` distributes them to consumers; what is withheld
follows from the owners (``populateActiveTaskAndPartitionsLists``). Where no ends are known ``fallback_prior`` places
tasks, which in Java depends on the order of hash tables, so there our placement is distributed.
``golden_threads.jsonl`` has Java's answers; ``python -m tests.group.test_threads_with_java 5000 java-peer`` asks a
peer that knows ``assign-threads``, and a file as third argument keeps the answers.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.values import Decision
from tests.group.threaded import Thread, led, read_answers, task

Json = dict[str, Any]
Answer = tuple[list[str], list[str], bool]
GOLDEN = Path(__file__).with_name("golden_threads.jsonl")
RUNS, UNKNOWN = -2, -3


class Java:
    """A conversation with one sub-command of the peer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, request: Json) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: Json = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer
        return answer


@contextmanager
def java(command: Sequence[str]) -> Iterator[Java]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Java(process)
        assert process.stdin is not None
        process.stdin.close()


class Problem:
    """One random group. Each partition has at most one owner, as a broker ensures."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.orders, self.clicks = random.randint(1, 12), random.choice([0, 0, 3])
        self.stateful = [f"0_{p}" for p in range(self.orders)]
        self.stateless = [f"1_{p}" for p in range(self.clicks)]
        self.ends = {t: random.choice([0, 50, 50_000, random.randint(0, 10**6)]) for t in self.stateful}
        self.ends_known = random.random() < 0.8
        self.config = AssignConfig(
            num_standby_replicas=random.choice([0, 1, 2]), max_warmup_replicas=random.choice([1, 2, 5])
        )
        processes = [UUID(int=random.getrandbits(128)) for _ in range(random.randint(1, 5))]
        names = [f"{process}-{number}" for process in processes for number in range(random.choice([1, 1, 2, 3, 5]))]
        owner = {t: random.choice([*names, None]) for t in self.stateful + self.stateless}
        owned = {name: [t for t in owner if owner[t] == name] for name in names}
        sums = {name: {t: RUNS for t in owned[name] if t in self.ends} for name in names}
        for t in self.stateful:
            holders = [p for p in processes if random.random() < 0.3 and not (owner[t] or "").startswith(str(p))]
            for process in holders:
                name = random.choice([name for name in names if name.startswith(str(process))])
                sums[name][t] = random.choice([self.ends[t], max(0, self.ends[t] - 9_000), 0, self.ends[t] + 1])
        self.threads = [Thread(name, UUID(name[:36]), owned[name], sums[name]) for name in sorted(names)]
        self.leader = processes[0]

    def ours(self) -> Decision:
        return led(
            self.threads,
            leader=self.leader,
            config=self.config,
            orders=self.orders,
            clicks=self.clicks,
            ends={task(t): end for t, end in self.ends.items()},
            ends_known=self.ends_known,
        )

    def theirs(self, assign: Java, deal: Java) -> dict[str, Answer]:
        """Return each consumer's active tasks, standbys, and whether it waits for a task."""
        ends = self.ends if self.ends_known else dict.fromkeys(self.ends, UNKNOWN)
        consumers: dict[UUID, list[Json]] = {}
        for thread in self.threads:
            reports = {
                "id": thread.name,
                "prev_active": list(thread.owned),
                "task_offset_sums": dict(thread.sums or {}),
            }
            consumers.setdefault(thread.process, []).append(reports)
        config = {
            "num_standby_replicas": self.config.num_standby_replicas,
            "max_warmup_replicas": self.config.max_warmup_replicas,
        }
        placed = (
            placements(self.ours())
            if not self.ends_known
            else assign.ask(
                {
                    "assignor": "high_availability",
                    "config": config,
                    "stateful_tasks": self.stateful,
                    "stateless_tasks": self.stateless,
                    "task_end_offset_sums": ends,
                    "clients": [
                        {"process_id": str(p), "tags": {}, "consumers": entries} for p, entries in consumers.items()
                    ],
                }
            )["clients"]
        )
        answers = {}
        for process, mine in consumers.items():
            given = placed[str(process)]
            request = {"active": given["active"], "standby": given["standby"], "task_end_offset_sums": ends}
            threads = [{key: thread[key] for key in ("id", "task_offset_sums")} for thread in mine]
            dealt = deal.ask({**request, "consumers": threads})["consumers"]
            for name, got in dealt.items():
                answers[name] = self._withheld(process, name, got)
        return answers

    def _withheld(self, process: UUID, name: str, got: Json) -> Answer:
        owners = {t: thread.name for thread in self.threads for t in thread.owned}
        reported = {t for thread in self.threads if thread.process == process for t in thread.sums or {}}
        runs = {t for thread in self.threads if thread.process == process for t in thread.owned}
        active = got["stateful_active"] + got["stateless_active"]
        held = {t for t in active if owners.get(t, name) != name}
        temporary = {t for t in held if t in self.ends and t in reported - runs}
        return sorted(set(active) - held), sorted({*got["standby"], *temporary}), bool(held)


def placements(decision: Decision) -> Json:
    """Return our placements in the form of Java's harness."""
    return {
        str(process): {
            "active": sorted(map(str, placed.active)),
            "standby": sorted(map(str, placed.standby | placed.warmup)),
        }
        for process, placed in decision.placements.items()
    }


def compare(command: Sequence[str], seeds: range, keep: Path | None) -> int:
    """Return how many decisions were compared; raise at the first difference."""
    with ExitStack() as ends:
        assign, deal = (ends.enter_context(java([*command, sub])) for sub in ("assign", "assign-threads"))
        answers = [(seed, Problem(seed).theirs(assign, deal)) for seed in seeds]
    for seed, answer in answers:
        assert ours(Problem(seed)) == answer, f"seed {seed}"
    if keep is not None:
        keep.write_text(
            "".join(f"{json.dumps(answer, separators=(',', ':'))}\n" for answer in answers), encoding="utf-8"
        )
    return len(answers)


def ours(problem: Problem) -> dict[str, Answer]:
    return {
        name: (sorted(map(str, info.active_tasks)), sorted(map(str, info.standby_tasks)), info.next_rebalance_ms == 0)
        for name, info in read_answers(problem.ours()).items()
    }


def test_random_groups_with_several_consumers_a_process_are_decided_as_java_decided_them() -> None:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    for seed, answer in map(json.loads, lines):
        assert ours(Problem(seed)) == {name: tuple(consumer) for name, consumer in answer.items()}, f"seed {seed}"
    assert len(lines) == 200


if __name__ == "__main__":
    kept = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    print(compare(shlex.split(sys.argv[2]), range(int(sys.argv[1])), kept), "decisions, none different")
