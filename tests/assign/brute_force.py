"""Prove least movement over all small clusters, by hand: ``python -m tests.assign.brute_force`` (some minutes).

It prints the number of clusters of each size and what they violate; status 1 if a guarantee does not hold. The texts
are in ``small_clusters``. With ``--part 1/2`` and ``--part 2/2`` two processes share the work.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.assign.small_clusters import ACCEPTABLE, TINY, Small, faults, small_clusters

Size = tuple[int, tuple[int, ...], int, str]

SIZES: list[Size] = [
    *((clients, (0,) * tasks, 4, "-PFRO") for clients in (1, 2) for tasks in (1, 2, 3, 4)),
    *((2, kinds, 4, "-PFRO") for kinds in ((0, 1), (0, 0, 1), (0, 1, 2))),
    *((3, kinds, 4, "-PFRO") for kinds in ((0,), (0, 0), (0, 1))),
    *((4, kinds, 2, "-PFRO") for kinds in ((0,), (0, 0), (0, 1))),
    *((4, kinds, 1, "-PFR") for kinds in ((0, 0, 0), (0, 0, 1))),
    *((3, kinds, 1, "-PFR") for kinds in ((0, 0, 1), (0, 1, 2), (0, 0, 0, 0))),
    *((4, kinds, 1, "-FR") for kinds in ((0, 0, 0, 0), (0, 0, 1, 1))),
    (3, (0, 0, 1, 1), 1, "-PFR"),
    (3, (0, 0, 0), 4, "-PFRO"),
    (2, (0, 0, 1, 1), 4, "-PFRO"),
    *((2, kinds, 4, "-PNFRO") for kinds in ((0,), (0, 0), (0, 1), (0, 0, 0))),
    *((3, kinds, 3, "-PNFR") for kinds in ((0,), (0, 0))),
]
"""Clients, the subtopology of each task, replicas of a task besides its owner, letters."""

TINY_SIZES: list[Size] = [
    *((2, (0,) * tasks, 4, "-PFRO") for tasks in (1, 2, 3, 4)),
    *((2, kinds, 4, "-PFRO") for kinds in ((0, 1), (0, 0, 1), (0, 1, 2))),
    *((3, kinds, 4, "-PFRO") for kinds in ((0,), (0, 0), (0, 1))),
    *((4, kinds, 2, "-PFR") for kinds in ((0,), (0, 0), (0, 1))),
    *((3, kinds, 1, "-PFR") for kinds in ((0, 0, 0), (0, 0, 1), (0, 1, 2))),
    *((3, kinds, 1, "-FR") for kinds in ((0, 0, 0, 0), (0, 0, 1, 1))),
    *((4, kinds, 1, "-FR") for kinds in ((0, 0, 0), (0, 0, 0, 0))),
]
"""The same, of tasks whose whole state is within the acceptable lag."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", default="1/1", help="the part of the work, and the number of parts")
    part, parts = map(int, parser.parse_args(arguments).part.split("/"))
    total, broken = Counter[str](), 0
    sizes = [*((size, ACCEPTABLE) for size in SIZES), *((size, TINY) for size in TINY_SIZES)]
    for (clients, kinds, copies_max, letters), acceptable in sizes:
        seen = Counter[str]()
        for number, small in enumerate(small_clusters(clients, kinds, copies_max, letters, acceptable=acceptable)):
            if number % parts == part - 1:
                seen["clusters"] += 1
                broken += _judged(small, seen)
        total += seen
        size = f"{clients} clients, tasks of subtopologies {kinds}, {letters}, acceptable lag {acceptable}"
        print(f"{size}: {describe_counts(seen)}", flush=True)
    print(f"all: {describe_counts(total)}")
    return int(broken > 0)


def _judged(small: Small, seen: Counter[str]) -> bool:
    texts = faults(small)
    for text in texts:
        seen["broken promises"] += 1
        print(f"{small}: {text}")
    return bool(texts)


def describe_counts(seen: Counter[str]) -> str:
    return ", ".join(f"{count:,} {text}" for text, count in seen.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
