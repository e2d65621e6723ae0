"""Where our words and the expected ones differ, and why: a line for each policy and situation, for those who read the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

WITHOUT, WITH, EITHER = (0,), (1,), (0, 1)
NO_SEAT = "even shares leave one of the tasks no seat where its standby is, so it is restored in the cold"


class Reason(NamedTuple):
    """For these policies, with so many standbys."""

    policies: tuple[str, ...]
    standbys: tuple[int, ...]
    text: str


REASONS: Mapping[str, tuple[Reason, ...]] = {
    "start": (
        Reason(("current",), WITHOUT, "disks are empty, so restoring is what nobody avoids; suspending costs seconds"),
        Reason(("current",), WITH, "each process that comes has all suspended, and standbys are begun that move again"),
        Reason(("simple",), EITHER, "the proposal weighs its additional joins; they cost nobody anything here"),
        Reason(
            ("delayed", "delayed_bootstrap"),
            EITHER,
            "the delay spares some restoring, but nobody works on any task while it lasts",
        ),
        Reason(
            ("bootstrap",),
            EITHER,
            "whoever comes first keeps, and restores, all tasks until those who come later have copies of them",
        ),
    ),
    "shutdown": (
        Reason(
            ("simple", "bootstrap"),
            EITHER,
            "what it saves over Current are suspensions of seconds; what is restored in vain is the same",
        ),
        Reason(
            ("current",),
            WITH,
            "the first that leaves has its standbys on one process, where even shares leave a seat for one; new copies come too late for the next",
        ),
        Reason(
            ("delayed", "delayed_bootstrap"),
            WITH,
            "standbys take over at once, so others are made for those that leave next; and tasks without a seat wait",
        ),
    ),
    "scale_out": (
        Reason(("delayed",), WITH, "the new process gets standbys first, so most of what it takes later is warm"),
        Reason(
            ("bootstrap", "delayed_bootstrap"), WITH, "standbys are spread anew, too: more is copied than what moves"
        ),
    ),
    "scale_in": (
        Reason(
            ("current",),
            WITHOUT,
            "the proposal assumes a complete shuffle; the sticky assignor moves no more than left",
        ),
        Reason(("simple",), WITHOUT, "nobody does better: what left is restored once, on all others side by side"),
        Reason(("delayed", "delayed_bootstrap"), WITHOUT, "who left does not come back: the delay is downtime in vain"),
        Reason(("current", "simple", "bootstrap"), WITH, NO_SEAT),
    ),
    "bounce": (
        Reason(
            ("current", "simple", "bootstrap"),
            WITHOUT,
            "the others restore at once what its owner is back for in 20 seconds",
        ),
        Reason(("current", "simple", "bootstrap"), WITH, f"{NO_SEAT}; and standbys are made anew at once"),
        Reason(
            ("delayed", "delayed_bootstrap"), WITH, "standbys that took over are made anew before the process is back"
        ),
    ),
    "failover": (
        Reason(
            ("delayed",), WITHOUT, "the first rebalance is cheap, but tasks wait for the delay, then for the restore"
        ),
        Reason(
            ("bootstrap",),
            WITHOUT,
            "the first rebalance restores a task on each of three processes, which is as fast as it goes",
        ),
        Reason(
            ("delayed_bootstrap",),
            WITHOUT,
            "two rebalances, as the proposal says, but the tasks wait while the new process restores all of them",
        ),
        Reason(
            ("current", "simple"), WITH, "the second rebalance gives the new process its share, which is cold there"
        ),
        Reason(("delayed",), WITH, "what the new process has not copied when the delay ends waits for its restore"),
        Reason(("bootstrap",), WITH, f"{NO_SEAT}; and standbys move twice"),
        Reason(("delayed_bootstrap",), WITH, "standbys move twice: for what was lost, and for the new process"),
    ),
}


def reasons(situation: str, standbys: int) -> Iterator[tuple[str, str]]:
    """(policy, why its word differs) of one column."""
    for reason in REASONS.get(situation, ()):
        if standbys in reason.standbys:
            yield from ((policy, reason.text) for policy in reason.policies)
