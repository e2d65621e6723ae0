"""Compare our assignors with a peer, by hand: ``python -m tests.assign.differential --peer 'java-peer' --count 20000``.

It makes random problems, streams them to the peer's ``assign`` (or, with ``--threads``, ``assign-threads``) and to
ours, stops at the first difference and prints the problem. With ``--keep FILE`` it writes problems and the peer's
answers.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from kstreams_assign.errors import ConfigError
from tests.assign.jsonl import answer_assign, answer_threads
from tests.assign.problems import assign_problem, racked_problem, tagged_problem, threads_problem

Json = dict[str, Any]

KINDS = {"all": assign_problem, "tags": tagged_problem, "racks": racked_problem}


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    make, ours = (threads_problem, answer_threads) if options.threads else (KINDS[options.kind], answer_assign)
    sizes = (options.consumers, options.tasks) if options.threads else (options.clients, options.tasks)
    random = Random(options.seed)
    problems = (make(random, *sizes) for _ in range(options.count))
    seen = 0
    for problem, theirs in answered(options.peer, "assign-threads" if options.threads else "assign", problems):
        mine = answer(ours, problem)
        if not same(mine, theirs):
            print(json.dumps({"number": seen, "problem": problem, "theirs": theirs, "ours": mine}))
            return 1
        if options.keep:
            keep(options.keep, {"request": problem, "answer": theirs})
        seen += 1
    print(f"seed {options.seed}: {seen} problems, 0 differences", file=sys.stderr)
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peer", required=True, help="a command that takes the sub-command as its last argument")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--consumers", type=int, default=6)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--threads", action="store_true", help="compare assign-threads")
    parser.add_argument("--kind", choices=KINDS, default="all", help="problems with client tags, or with racks")
    parser.add_argument("--keep", help="append problems and answers to this file")
    return parser.parse_args(arguments)


def answered(peer: str, command: str, problems: Iterator[Json]) -> Iterator[tuple[Json, Json]]:
    """Yield each problem with the peer's answer, over one conversation."""
    with subprocess.Popen(
        [*shlex.split(peer), command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for problem in problems:
            process.stdin.write(json.dumps(problem) + "\n")
            process.stdin.flush()
            yield problem, json.loads(process.stdout.readline())
        process.stdin.close()


def answer(ours: Callable[[Json], Json], problem: Json) -> Json:
    try:
        return ours(problem)
    except ConfigError as refused:
        return {"error": {"class": type(refused).__name__, "message": str(refused)}}


def same(mine: Json, theirs: Json) -> bool:
    """Return whether the answers are equal; of refusals only the fact counts."""
    return ("error" in mine and "error" in theirs) or mine == theirs


def keep(path: str, line: Json) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
