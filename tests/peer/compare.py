"""Compare two peers line by line, by hand:

    python -m tests.peer.compare assign --one 'java-peer' --other 'kstreams-assign peer' --seed 1 --count 20000

A peer is a command that takes the sub-command as its last argument. Random requests go to both; the first difference
ends the program and is printed. Of refusals only the fact counts. Bytes that differ count as equal if ``--one`` reads
the same from them, because hash maps have no order. ``--keep FILE`` writes the requests and the answers of ``--one``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from tests.peer import problems
from tests.peer.streams_problems import streams_group_problem

Json = dict[str, Any]


class Peer:
    """A conversation with one sub-command of a peer, started with the first request."""

    def __init__(self, command: str, sub: str) -> None:
        self.command = [*shlex.split(command), sub]

    @cached_property
    def process(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def send(self, request: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Json:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the peer {self.process.args!r} ended"
        answer: Json = json.loads(line)
        return answer

    def ask(self, request: Json) -> Json:
        self.send(request)
        return self.answer()

    def close(self) -> None:
        if "process" in vars(self):
            self.process.communicate()


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    first, second = Peer(options.one, options.sub), Peer(options.other, options.sub)
    reader = Peer(options.one, options.sub.replace("encode", "decode"))
    writer = Peer(options.one, options.sub.replace("decode", "encode"))
    try:
        return compare(options, first, second, reader, requests(options, writer))
    finally:
        for peer in (first, second, reader, writer):
            peer.close()


def compare(options: argparse.Namespace, first: Peer, second: Peer, reader: Peer, asked: Iterator[Json]) -> int:
    refused = 0
    for number, request in enumerate(asked):
        first.send(request)
        second.send(request)
        answers = first.answer(), second.answer()
        if not same(*answers, reader):
            print(json.dumps({"number": number, "request": request, "one": answers[0], "other": answers[1]}))
            return 1
        refused += "error" in answers[0]
        if options.keep:
            keep(options.keep, {"request": request, "answer": answers[0]})
    print(
        f"{options.sub}, seed {options.seed}: {options.count} requests ({refused} refused), 0 differences",
        file=sys.stderr,
    )
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.peer.compare", description="Compare two peers line by line.")
    parser.add_argument("sub", choices=("assign", "assign-threads", *OTHERS))
    parser.add_argument("--one", required=True, help="a command that takes the sub-command as its last argument")
    parser.add_argument("--other", default=f"{sys.executable} -m kstreams_assign peer", help="the peer to compare with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--assignor", default="high_availability")
    parser.add_argument("--keep", help="append requests and answers to this file")
    return parser.parse_args(arguments)


OTHERS: dict[str, Callable[[Random], Json]] = {
    "assign-streams-group": streams_group_problem,
    "encode-subscription": problems.subscription,
    "decode-subscription": problems.subscription,
    "encode-assignment": problems.assignment,
    "decode-assignment": problems.assignment,
}


def requests(options: argparse.Namespace, writer: Peer) -> Iterator[Json]:
    random = Random(options.seed)
    for number in range(options.count):
        if options.sub == "assign":
            request = problems.assign(random, options.assignor)
        elif options.sub == "assign-threads":
            request = problems.assign_threads(random)
        else:
            request = OTHERS[options.sub](random)
        if options.sub.startswith("decode"):
            request = {"hex": problems.damaged(random, written(writer, request)).hex()}
        yield {"id": number, **request}


def written(writer: Peer, request: Json) -> bytes:
    """Return the bytes of a request; of a refused one only the version, possibly with bytes after it."""
    return bytes.fromhex(writer.ask(request).get("hex", request["version"].to_bytes(4, signed=True).hex() + "0000000c"))


def same(first: Json, second: Json, reader: Peer) -> bool:
    if "error" in first and "error" in second:
        return first.get("id") == second.get("id")
    if first == second or "hex" not in first or "hex" not in second:
        return first == second
    read = [reader.ask({"hex": answer["hex"]}) for answer in (first, second)]
    for answer in read:
        answer.pop("wire_order", None)
    return "error" not in read[0] and read[0] == read[1]


def keep(path: str, line: Json) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
