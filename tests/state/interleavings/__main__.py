"""``python -m tests.state.interleavings --depth 14``: the deep walk.

Exit status 1 if anything is wrong, with its story.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.state.interleavings.search import walk
from tests.state.interleavings.steps import Plan, Rules
from tests.state.interleavings.world import first_world


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.state.interleavings", description=__doc__)
    parser.add_argument(
        "--depth", type=int, help="count all interleavings up to so many steps; without: walk to the end"
    )
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[], choices=Plan._fields, help="leave this trouble out")
    asked = parser.parse_args()
    began = time.process_time()
    rules = Rules(Plan(**dict.fromkeys(asked.without, False)))
    walked = walk(rules, first_world(asked.members, asked.tasks), asked.depth)
    steps = sum(map(len, walked.following.values()))
    summary = (
        f"{asked.members} members, {asked.tasks} tasks: {len(walked.following):,} worlds, {steps:,} steps between them"
    )
    if asked.depth is not None:
        summary += f", {sum(walked.paths):,} distinct interleavings of up to {asked.depth} steps"
    else:
        summary += ", every one that can be reached"
    sys.stdout.write(f"{summary}; {len(walked.wrong)} violations; {time.process_time() - began:.0f} s of CPU\n")
    for wrong, world in walked.wrong.items():
        sys.stdout.write("\n  ".join([f"{wrong}:", *walked.story(world)]) + "\n")
    return 1 if walked.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
