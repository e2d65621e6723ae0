"""Why words differ from the expected ones: a reason for each policy and situation, printed below the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

WITHOUT, WITH, EITHER = (0,), (1,), (0, 1)
NO_SEAT = "even shares leave no room for one of the tasks where its standby is, so it is restored in full"


class Reason(NamedTuple):
    """The reason for these policies, with these numbers of standbys."""

    policies: tuple[str, ...]
    standbys: tuple[int, ...]
    text: str


REASONS: Mapping[str, tuple[Reason, ...]] = {
    "start": (
        Reason(("current",), WITHOUT, "disks are empty, so no policy avoids restoring; suspending costs seconds"),
        Reason(("current",), WITH, "each new process suspends all tasks, and standbys begin that move again"),
        Reason(("simple",), WITH, "standbys that the first processes have begun are made again on later ones"),
        Reason(
            ("delayed", "delayed_bootstrap"),
            EITHER,
            "the delay saves some restoring, but no task is processed meanwhile",
        ),
        Reason(
            ("bootstrap",),
            EITHER,
            "the first process restores and keeps all tasks until later ones have replicas of them",
        ),
    ),
    "shutdown": (
        Reason(
            ("simple", "bootstrap"),
            EITHER,
            "compared with Current it saves seconds of suspension, but restores as much in vain",
        ),
        Reason(
            ("delayed", "delayed_bootstrap"),
            WITH,
            "standbys take over at once, so new ones are made for the next processes that leave; tasks without room "
            "wait",
        ),
    ),
    "scale_out": (
        Reason(
            ("delayed",), WITH, "the new process gets standbys first, so most tasks that it takes later are caught up"
        ),
        Reason(
            ("bootstrap", "delayed_bootstrap"), WITH, "standbys are spread again, too, so more is copied than moves"
        ),
    ),
    "scale_in": (
        Reason(
            ("current",),
            WITHOUT,
            "the proposal assumes a complete shuffle; the sticky assignor moves only orphaned tasks",
        ),
        Reason(
            ("simple",), WITHOUT, "no policy does better: orphaned tasks are restored once, on all others in parallel"
        ),
        Reason(("delayed", "delayed_bootstrap"), WITHOUT, "the process does not come back: the delay is only downtime"),
        Reason(("current", "simple", "bootstrap"), WITH, NO_SEAT),
    ),
    "bounce": (
        Reason(
            ("current", "simple", "bootstrap"),
            WITHOUT,
            "the others restore tasks at once whose owner is back in 20 seconds",
        ),
        Reason(("current", "simple", "bootstrap"), WITH, f"{NO_SEAT}; and new standbys are made at once"),
        Reason(
            ("delayed", "delayed_bootstrap"),
            WITH,
            "new standbys are made for those that took over before the process is back",
        ),
    ),
    "failover": (
        Reason(
            ("delayed",), WITHOUT, "the first rebalance is cheap, but tasks wait for the delay, then for the restore"
        ),
        Reason(
            ("bootstrap",),
            WITHOUT,
            "the first rebalance restores a task on each of three processes, which is the fastest way",
        ),
        Reason(
            ("delayed_bootstrap",),
            WITHOUT,
            "two rebalances, as the proposal says, but the tasks wait while the new process restores all of them",
        ),
        Reason(
            ("current", "simple"),
            WITH,
            "the second rebalance gives the new process its share, which it restores in full",
        ),
        Reason(
            ("delayed",), WITH, "tasks that the new process has not copied when the delay ends wait for their restore"
        ),
        Reason(("bootstrap",), WITH, f"{NO_SEAT}; and standbys move twice"),
        Reason(("delayed_bootstrap",), WITH, "standbys move twice: for the lost process, and for the new one"),
    ),
}


def reasons(situation: str, standbys: int) -> Iterator[tuple[str, str]]:
    """Yield (policy, why its word differs) of a column."""
    for reason in REASONS.get(situation, ()):
        if standbys in reason.standbys:
            yield from ((policy, reason.text) for policy in reason.policies)
