"""BEST to BAD from our numbers, by one rule (``RULE``), and the words that the policies' own proposal has for them (``PROPOSAL``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kstreams_assign.sim.tables.measure import Measured
from kstreams_assign.sim.tables.situations import COLD_S, GROUP, SHARE_RECORDS

WORDS = ("BEST", "BETTER", "MAYBE BETTER", "MAYBE OK", "STILL NOT GOOD", "BAD")
BOUNDS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""In cold hand-overs: below the first is the first word, and so on."""

UNEVEN = "UNEVEN"
"""In place of a word: to leave a new process idle costs nothing."""

COLD_HAND_OVER_S = COLD_S + SHARE_RECORDS / GROUP.restored_per_s

RULE = f"""Cost: task-seconds in which nobody works on a task, and seconds in which processes restore.
What the cheapest policy of a table costs nobody avoids; what is above it counts in cold hand-overs
(one process's tasks wait while they are restored: {COLD_HAND_OVER_S:.0f} s). Half of one or more is BAD, and each
better word halves it."""

EVENNESS = """Uneven: how many more tasks the fullest process runs in the end than the emptiest. Two or more have no word
but this, and nobody is measured against them: to move nothing is cheap."""

PROPOSAL = """Expected: the word in "Incremental Cooperative Rebalancing for Streams" (Apache Kafka's wiki, 2017),
where the first five come from. Where ours is another, the reason stands below the table."""


def cost_s(one: Measured) -> float:
    """Task-seconds of downtime and process-seconds of restoring."""
    return one.downtime_s + one.restored / GROUP.restored_per_s


def is_even(one: Measured) -> bool:
    return one.uneven < 2


def word(one: Measured, column: Sequence[Measured]) -> str:
    """``column``: every policy's numbers in the same situation with as many standbys."""
    if not is_even(one):
        return UNEVEN
    extra = (cost_s(one) - min(cost_s(other) for other in column if is_even(other))) / COLD_HAND_OVER_S
    return WORDS[sum(extra >= bound for bound in BOUNDS)]


_SAME: Mapping[str, tuple[str, ...]] = {
    # policy -> start, shutdown, scale_out, bounce: the proposal has one word with and without standbys
    "current": ("MAYBE OK", "MAYBE OK", "BAD", "MAYBE OK"),
    "simple": ("MAYBE BETTER", "MAYBE BETTER", "BAD", "BETTER"),
    "delayed": ("BETTER", "BEST", "BAD", "BEST"),
    "bootstrap": ("MAYBE BETTER", "MAYBE BETTER", "BEST", "BEST"),
    "delayed_bootstrap": ("BETTER", "BEST", "BEST", "BEST"),
}
_APART: Mapping[str, tuple[str, ...]] = {
    # policy -> scale_in without, with; failover without, with
    "current": ("BAD", "MAYBE OK", "BAD", "MAYBE OK"),
    "simple": ("BETTER", "BEST", "BAD", "MAYBE BETTER"),
    "delayed": ("BETTER", "BEST", "BETTER", "BETTER"),
    "bootstrap": ("BEST", "BEST", "STILL NOT GOOD", "BETTER"),
    "delayed_bootstrap": ("BEST", "BEST", "BEST", "BEST"),
}
EXPECTED: Mapping[tuple[str, str, int], str] = {
    **{
        (policy, situation, standbys): told
        for policy, words in _SAME.items()
        for situation, told in zip(("start", "shutdown", "scale_out", "bounce"), words, strict=True)
        for standbys in (0, 1)
    },
    **{
        (policy, situation, standbys): words[2 * at + standbys]
        for policy, words in _APART.items()
        for at, situation in enumerate(("scale_in", "failover"))
        for standbys in (0, 1)
    },
}
"""(policy, situation, standbys) -> the proposal's word."""
