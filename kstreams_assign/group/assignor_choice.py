"""Which assignor decides a round, and in which version of it: the one rule that makes every leader answer alike.

A group with members that are not ours gets Java's decision, whoever leads. Among ours the leader runs the newest version of
its assignor that all members know, so while a release rolls out the target changes once, with the last member.
"""

from __future__ import annotations

from dataclasses import dataclass

from kstreams_assign.assign import VERSIONS, Assignor
from kstreams_assign.group.view import GroupView

JAVA_ASSIGNOR = "high_availability"
"""What Java members run, and so what every group can fall back to."""
STICKY = "sticky"
"""Decides without lags, so it needs no changelog ends (``StreamsPartitionAssignor.createTaskAssignor``)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An assignor by name and version; ``warning`` says why it is not the one that was set, if it is not."""

    name: str
    version: int
    warning: str | None = None

    @property
    def assign(self) -> Assignor:
        return VERSIONS[self.name][self.version]


def choose(view: GroupView, wanted: str, *, ends_known: bool) -> Choice:
    """The assignor for these members; ``wanted`` is the leader's setting."""
    if not ends_known and (wanted != STICKY or view.foreign):
        why = "changelog end offsets could not be had in time: prior owners stay, and a probe asks again"
        return Choice("fallback_prior", max(VERSIONS["fallback_prior"]), why)
    if wanted == JAVA_ASSIGNOR:
        return Choice(JAVA_ASSIGNOR, max(VERSIONS[JAVA_ASSIGNOR]))
    if foreign := view.foreign:
        why = (
            f"members without our trailer ({', '.join(foreign)}): {JAVA_ASSIGNOR} decides, as Java would, not {wanted}"
        )
        return Choice(JAVA_ASSIGNOR, max(VERSIONS[JAVA_ASSIGNOR]), why)
    newest = view.newest_version_of_all(wanted)
    known = [version for version in VERSIONS[wanted] if version <= newest]
    if not known:
        without = ", ".join(view.without_assignor(wanted))
        why = f"members of an earlier release ({without}) do not know {wanted}: {JAVA_ASSIGNOR} decides until they are upgraded"
        return Choice(JAVA_ASSIGNOR, max(VERSIONS[JAVA_ASSIGNOR]), why)
    return Choice(wanted, max(known))


def known_assignors() -> dict[str, int]:
    """What a member tells of itself in its trailer: each assignor with the newest version that it knows."""
    return {name: max(versions) for name, versions in VERSIONS.items()}


def explain_other_assignor(decided: str | None, wanted: str) -> str | None:
    """Why the leader's assignor, ``None`` without a trailer, is not the one that is set here; None if it is, or will be."""
    if decided == wanted or (decided is None and wanted == JAVA_ASSIGNOR) or decided == "fallback_prior":
        return None
    if decided is None:
        return f"the leader is no member of ours (or the group's record is full, as its log says then): {JAVA_ASSIGNOR} decides, as Java does, not {wanted}"
    return f"the leader decides by {decided}, not by {wanted} as it is set here"
