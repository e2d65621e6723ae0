"""Which assignor decides a round, and in which version: the rule by which every leader decides the same.

A group with foreign members gets Java's decision, whichever member leads. Among Python members the leader runs the
newest version of its assignor that all members know, so during a rolling upgrade the target changes once, with the
last member.
"""

from __future__ import annotations

from kstreams_assign.assign import VERSIONS, Assignor
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.view import GroupView

JAVA_ASSIGNOR = "high_availability"
"""Java's own assignor, and the fallback of every group."""
STICKY = "sticky"
"""Decides without lags, so it needs no changelog ends (``StreamsPartitionAssignor.createTaskAssignor``)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An assignor by name and version; ``warning`` says why it differs from the setting, if it does."""

    name: str
    version: int
    warning: str | None = None

    @property
    def assign(self) -> Assignor:
        return VERSIONS[self.name][self.version]


def choose(view: GroupView, wanted: str, *, ends_known: bool) -> Choice:
    """Choose the assignor for these members; ``wanted`` is the leader's setting."""
    if not ends_known and (wanted != STICKY or view.foreign):
        why = (
            "the changelogs' end offsets could not be read in time: "
            "tasks stay with their previous owners until a probing rebalance tries again"
        )
        return Choice("fallback_prior", max(VERSIONS["fallback_prior"]), why)
    if wanted == JAVA_ASSIGNOR:
        return Choice(JAVA_ASSIGNOR, max(VERSIONS[JAVA_ASSIGNOR]))
    if foreign := view.foreign:
        why = (
            f"members that are not Python members ({', '.join(foreign)}): the group uses assignor {JAVA_ASSIGNOR}, "
            f"as Java would, instead of {wanted}; set assignor to {JAVA_ASSIGNOR} if the group is meant to be mixed"
        )
        return Choice(JAVA_ASSIGNOR, max(VERSIONS[JAVA_ASSIGNOR]), why)
    newest = view.newest_version_of_all(wanted)
    known = [version for version in VERSIONS[wanted] if version <= newest]
    if not known:
        members = ", ".join(view.without_assignor(wanted))
        why = (
            f"members of an earlier release ({members}) do not know assignor {wanted}: "
            f"the group uses {JAVA_ASSIGNOR} until they are upgraded"
        )
        return Choice(JAVA_ASSIGNOR, max(VERSIONS[JAVA_ASSIGNOR]), why)
    return Choice(wanted, max(known))


def known_assignors() -> dict[str, int]:
    """Return what a member's trailer reports: each assignor with the newest version that it knows."""
    return {name: max(versions) for name, versions in VERSIONS.items()}


def explain_other_assignor(decided: str | None, wanted: str) -> str | None:
    """Return why the leader's assignor differs from the one that is set here; None if it does not, or only for now.

    ``decided`` is None if the assignment has no trailer.
    """
    if decided == wanted or (decided is None and wanted == JAVA_ASSIGNOR) or decided == "fallback_prior":
        return None
    if decided is None:
        return (
            f"the leader is not a Python member (or the group's record is full, which its log says): the group uses "
            f"assignor {JAVA_ASSIGNOR}, as Java does, instead of {wanted}"
        )
    return f"the leader uses assignor {decided}, but assignor is {wanted} here; set the same assignor in all members"
