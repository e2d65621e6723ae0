"""Why a streams group got a new target assignment, as far as its records show.

What lives here: the comparison of two targets. What must not: members' tasks. The broker's epoch rises when members
join or leave, and when topics, topology or settings change: each leaves its trace in the records.
"""

from __future__ import annotations

from kstreams_assign.history.causes import CERTAIN, LIKELY, Cause, Finding, some
from kstreams_assign.history.streams_memory import StoredStreamsMember, Target


def streams_cause(target: Target, before: Target | None, *, completed: bool) -> Cause:
    """Why ``target`` came after ``before``; ``completed``: before the next target came."""
    note = "" if completed else "; the next assignment came before all members had this one"
    if before is None:
        return Cause("first", CERTAIN, f"nothing is known of the group before this epoch{note}")
    now, old = _processes(target), _processes(before)
    joined, gone = sorted(now - old), sorted(old - now)
    if not target.members:
        return Cause("empty", CERTAIN, f"no member is left; {len(before.members)} were there", joined, gone)
    finds = (_membership(target, before), _rejoin(target, before), _topics(target, before), _settings(target, before))
    traces = [trace for trace in finds if trace is not None]
    if not traces:
        return Cause(None, None, f"no record says why{note}", joined, gone)
    first, *others = traces
    confidence = LIKELY if any(trace.confidence == CERTAIN for trace in others) else first.confidence
    also = "".join(f"; also {trace.evidence}" for trace in others)
    return Cause(
        first.cause or None, confidence if first.cause else None, f"{first.evidence}{also}{note}", joined, gone
    )


def identities(target: Target) -> dict[str, tuple[str, StoredStreamsMember]]:
    """What stays the same while it is a member (a static member's instance id, else its id) -> member id and member."""
    return {
        member_id if member.instance_id is None else f"instance {member.instance_id}": (member_id, member)
        for member_id, member in target.members.items()
    }


def _processes(target: Target) -> set[str]:
    return {member.process_id for member in target.members.values()}


def _membership(target: Target, before: Target) -> Finding | None:
    now, old = identities(target), identities(before)
    new = [member.process_id for identity, (_, member) in now.items() if identity not in old]
    left = [member.process_id for identity, (_, member) in old.items() if identity not in now]
    if not (new or left):
        return None
    if not old:
        return Finding("join", CERTAIN, f"{some(new)} came into the empty group")
    if not left:
        threads = " (another thread of a process that was there)" if _processes(before).issuperset(new) else ""
        return Finding("join", CERTAIN, f"{some(new)} joined{threads}")
    if not new:
        threads = " (a thread of a process that stays)" if _processes(target).issuperset(left) else ""
        return Finding("leave", CERTAIN, f"{some(left)} left or its session ended{threads}")
    if set(new) == set(left):
        return Finding("replace", CERTAIN, f"{some(new)} came back as another member, so it was restarted")
    return Finding("replace", CERTAIN, f"{some(new)} joined and {some(left)} left or its session ended")


def _rejoin(target: Target, before: Target) -> Finding | None:
    """The same member under another id, or with another process, endpoint or tags."""
    old = identities(before)
    both = [(name, own, old[name]) for name, own in identities(target).items() if name in old]
    again = [name for name, (member_id, _), (old_id, _) in both if member_id != old_id]
    if again:
        return Finding("rejoin", CERTAIN, f"{some(again)} came back under another member id")
    other = [name for name, (_, member), (_, was) in both if member.about != was.about]
    return Finding("rejoin", LIKELY, f"{some(other)} said something else of itself") if other else None


def _topics(target: Target, before: Target) -> Finding | None:
    """The broker keeps a hash of the topics that the group uses: of their partitions and racks."""
    if target.topology_epoch != before.topology_epoch:
        change = f"{before.topology_epoch} -> {target.topology_epoch}"
        return Finding("topic_change", CERTAIN, f"the topology's epoch changed: {change}")
    if target.metadata_hash != before.metadata_hash:
        return Finding(
            "topic_change", LIKELY, "the hash of the group's topics changed: partitions, racks or new topics"
        )
    return None


def _settings(target: Target, before: Target) -> Finding | None:
    """No cause of the tables, but evidence: settings of the group at the broker changed."""
    names = sorted(
        name
        for name in target.configs.keys() | before.configs.keys()
        if target.configs.get(name) != before.configs.get(name)
    )
    if not names:
        return None
    changes = [f"{name} {before.configs.get(name)} -> {target.configs.get(name)}" for name in names]
    return Finding("", LIKELY, f"settings of the group changed: {some(changes)}")
