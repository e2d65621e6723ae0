"""Words from BEST to BAD for costs, by a rule (``RULE``), and the words of the policies' proposal (``PROPOSAL``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.tables.measure import Measured
from kstreams_assign.sim.tables.situations import COLD_S, GROUP, SHARE_RECORDS

WORDS = ("BEST", "BETTER", "MAYBE BETTER", "MAYBE OK", "STILL NOT GOOD", "BAD")
BOUNDS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""In cold hand-overs: below the first bound is the first word, and so on."""

UNEVEN = "UNEVEN"
"""In place of a word: leaving a new process without tasks or without standbys costs nothing."""

COLD_HAND_OVER_S = COLD_S + SHARE_RECORDS / GROUP.restored_per_s

RULE = (
    "Cost: the seconds in which tasks are not processed, plus the seconds in which processes restore. A policy is "
    "compared with the cheapest one of its table, in cold hand-overs: the tasks of one process wait for their restore, "
    f"{COLD_HAND_OVER_S:.0f} s. Half a cold hand-over above the cheapest, or more, is BAD; each better word halves it."
)

EVENNESS = (
    "UNEVEN (n): in the end, one process runs or holds n tasks more than another, with n at least 2. Such a policy "
    "gets no word and counts in no comparison, because moving nothing is cheap."
)

PROPOSAL = (
    'The first five policies come from "Incremental Cooperative Rebalancing for Streams" (Apache Kafka\'s wiki, 2017), '
    "which expected a word for each of them. Expected words that differ are listed below the table, with the reason."
)


def cost_s(costs: Measured, group: Scenario = GROUP) -> float:
    """Return the task-seconds of downtime plus the process-seconds of restoring, in this group."""
    return costs.downtime_s + costs.restored / group.restored_per_s


def unevenness(costs: Measured) -> int:
    """Return how many tasks more than another a process runs, or runs and holds, in the end."""
    return max(costs.uneven, costs.uneven_replicas)


def is_even(costs: Measured) -> bool:
    return unevenness(costs) < 2


def word(costs: Measured, column: Sequence[Measured]) -> str:
    """Return the word for these costs. ``column``: the costs of all policies in the same situation."""
    if not is_even(costs):
        return UNEVEN
    extra = (cost_s(costs) - min(cost_s(other) for other in column if is_even(other))) / COLD_HAND_OVER_S
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
        (policy, situation, standbys): expected
        for policy, words in _SAME.items()
        for situation, expected in zip(("start", "shutdown", "scale_out", "bounce"), words, strict=True)
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
