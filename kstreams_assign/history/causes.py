"""Why a generation was formed, as far as its record and the one before show: a cause, a confidence, and the evidence.

The topic holds no reasons. So each function in ``FINDINGS`` looks for one kind of trace and returns what it saw. The
first that finds something names the cause; the findings of the others go into the evidence and lower the confidence,
because more than one thing happened. Where no trace is found, the cause is None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kstreams_assign.group.values import ErrorCode
from kstreams_assign.history.memory import Last, Memory
from kstreams_assign.history.reading import plain
from kstreams_assign.history.seen import Generation, SeenMember

CERTAIN, LIKELY, GUESS = "certain", "likely", "guess"

PROMPT_MS = 60_000
"""A member that is asked to rejoin does so within a heartbeat and a poll; a later rebalance may have another reason."""

CLOCK_SLACK_MS = 5_000
"""The probe's time comes from the leader's clock, the generation's from the broker's."""

NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Cause:
    """One row's answer. ``joined`` and ``gone`` are process ids, None where no generation was seen before."""

    cause: str | None
    confidence: str | None
    evidence: str
    joined: list[str] | None = None
    gone: list[str] | None = None


class Finding(NamedTuple):
    """One trace: the cause it speaks for, how sure it would be alone, and what was seen."""

    cause: str
    confidence: str
    evidence: str


def cause_of(seen: Generation, memory: Memory) -> Cause:
    """Why ``seen`` came about; ``memory`` is from before it."""
    last = memory.last
    if last is None:
        return Cause("first", CERTAIN, "nothing is known of the group before this generation")
    joined, gone = _joined_and_gone(seen, last)
    if not seen.members:
        return Cause("empty", CERTAIN, f"no member is left; {len(last.members)} were there", joined, gone)
    traces = [trace for trace in (find(seen, last, memory) for find in FINDINGS) if trace is not None]
    missing = seen.place.generation - last.generation - 1
    note = f"; {missing} generations between left no record" if missing > 0 else ""
    if not traces:
        return _by_elimination(seen, last, note, joined, gone)
    first, *others = traces
    crowded = any(trace.confidence == CERTAIN for trace in others)
    also = "".join(f"; also {trace.evidence}" for trace in others)
    confidence = LIKELY if first.confidence == CERTAIN and (crowded or note) else first.confidence
    return Cause(first.cause, confidence, plain(first.evidence + also + note), joined, gone)


def remembered(seen: Generation, last: Last | None) -> Last:
    """What the cause of the next generation may depend on. ``last`` is the generation before ``seen``."""
    codes = [member.common.error_code for member in seen.members if member.common is not None]
    due = [time for time in seen.asked_ms if time > 0]
    return Last(
        generation=seen.place.generation,
        time_ms=seen.place.time_ms,
        leader=seen.metadata.leader,
        members={
            member.identity: [member.raw.member_id, _process_of(member, last), _about(member)]
            for member in seen.members
        },
        topics=sorted({topic for member in seen.members if member.said for topic in member.said.topics}),
        asked=_asked(seen),
        due_ms=min(due, default=None),
        error_code=max(codes, default=0),
        ours=seen.trailer is not None,
        asking_known=seen.probing is not None and all(member.unreadable is None for member in seen.members),
        revoked=list(map(str, seen.revoked)),
    )


def _asked(seen: Generation) -> str | None:
    """Why a follow-up is to come, in words; None if none is."""
    name = f"generation {seen.place.generation}"
    if seen.trailer is not None and seen.trailer.followup:
        held_back = f"held back {some(sorted(map(str, seen.trailer.withheld)))} and " if seen.trailer.withheld else ""
        return f"{name} {held_back}said that a follow-up comes"
    if seen.revoked:
        return f"{name} took {some(sorted(map(str, seen.revoked)))} away, whose owners then rejoin"
    if 0 in seen.asked_ms:
        return f"{name} asked a member to rejoin at once"
    return None


def _about(member: SeenMember) -> str:
    """What a member says of itself and does not change while it lives."""
    report = member.readable_report
    if report is None:
        return ""
    return f"{report.user_end_point} {sorted(report.client_tags.items())} version {report.version}"


def processes_there(seen: Generation, last: Last | None) -> set[str]:
    """The processes of this generation. One whose member is still there but cannot be read has not left."""
    return {process for member in seen.members if (process := _process_of(member, last)) is not None}


def _process_of(member: SeenMember, last: Last | None) -> str | None:
    """Its process; of a member that cannot be read, the one that it had before."""
    if member.process is None and last is not None and member.identity in last.members:
        before: str | None = last.members[member.identity][1]
        return before
    return member.process


def _joined_and_gone(seen: Generation, last: Last) -> tuple[list[str], list[str]]:
    """Process ids."""
    before = {process for _, process, _ in last.members.values() if process is not None}
    return sorted(seen.processes.keys() - before), sorted(before - processes_there(seen, last))


def _membership(seen: Generation, last: Last, _memory: Memory) -> Finding | None:
    """Members that are new, and members that are not there any more."""
    now = {member.identity: member.process for member in seen.members}
    new = [process or identity for identity, process in now.items() if identity not in last.members]
    left = [about[1] or identity for identity, about in last.members.items() if identity not in now]
    if not (new or left):
        return None
    if not last.members:
        return Finding("join", CERTAIN, f"{some(new)} came into the empty group")
    if not left:
        return Finding("join", CERTAIN, f"{some(new)} joined{_threads(new, last)}")
    if not new:
        staying = {process for process in now.values() if process}
        part = " (a thread of a process that stays)" if staying.issuperset(left) else ""
        return Finding("leave", CERTAIN, f"{some(left)} left{part}")
    if set(new) == set(left):
        return Finding("replace", CERTAIN, f"{some(new)} came back as another member, so it was restarted")
    return Finding("replace", CERTAIN, f"{some(new)} joined and {some(left)} left")


def _threads(new: Iterable[str], last: Last) -> str:
    """Whether what joined are only more threads of processes that were there."""
    known = {about[1] for about in last.members.values()}
    return " (another thread of a process that was there)" if known.issuperset(new) else ""


def _static_restart(seen: Generation, last: Last, _memory: Memory) -> Finding | None:
    """A static member that came back: another member id under the same instance id."""
    restarted = [
        member.identity
        for member in seen.members
        if member.identity in last.members and last.members[member.identity][0] != member.raw.member_id
    ]
    if not restarted:
        return None
    led = any(last.members[identity][0] == last.leader for identity in restarted)
    return Finding(
        "rejoin", CERTAIN, f"{some(restarted)} came back under another member id{', and it led' if led else ''}"
    )


def _topics(seen: Generation, last: Last, memory: Memory) -> Finding | None:
    """Input partitions that no member had before, or other topics subscribed to."""
    known = {partition for inputs in memory.inputs.values() for partition in inputs}.union(last.revoked)
    now = [partition for inputs in seen.inputs.values() for partition in inputs]
    new = sorted({partition for partition in now if str(partition) not in known})
    if new:
        return Finding("topic_change", CERTAIN, f"input partitions {some(list(map(str, new)))} are new")
    topics = {topic for member in seen.members if member.said for topic in member.said.topics}
    if topics == set(last.topics):
        return None
    changes = [f"+{name}" for name in topics - set(last.topics)] + [f"-{name}" for name in set(last.topics) - topics]
    return Finding("topic_change", LIKELY, f"other topics are subscribed to: {some(sorted(changes))}")


def _follow_up(seen: Generation, last: Last, _memory: Memory) -> Finding | None:
    if last.asked is None:
        return None
    late_ms = seen.place.time_ms - last.time_ms
    return Finding("follow_up", CERTAIN if late_ms <= PROMPT_MS else LIKELY, last.asked)


def _probe(seen: Generation, last: Last, _memory: Memory) -> Finding | None:
    if last.due_ms is None or seen.place.time_ms < last.due_ms - CLOCK_SLACK_MS:
        return None
    late_ms = seen.place.time_ms - last.due_ms
    said = f"generation {last.generation} asked for a rebalance at {last.due_ms}, {abs(late_ms)} ms"
    evidence = f"{said} {'before' if late_ms >= 0 else 'after'} this one"
    return Finding("probe", CERTAIN if 0 <= late_ms <= PROMPT_MS else LIKELY, evidence)


def _error(_seen: Generation, last: Last, _memory: Memory) -> Finding | None:
    if not last.error_code:
        return None
    known = {code.value: code.name for code in ErrorCode}
    name = known.get(last.error_code, str(last.error_code))
    return Finding("rejoin", LIKELY, f"generation {last.generation} answered with the error {name}")


def _leader(seen: Generation, last: Last, _memory: Memory) -> Finding | None:
    """Another leader although the old one is still there."""
    there = {member.raw.member_id for member in seen.members}
    if seen.metadata.leader == last.leader or last.leader not in there:
        return None
    return Finding(
        "leader_change", LIKELY, f"{seen.metadata.leader} leads instead of {last.leader}, which is still there"
    )


def _said_otherwise(seen: Generation, last: Last, _memory: Memory) -> Finding | None:
    """A member that says something else of itself: its endpoint, its tags, the version that it speaks."""
    changed = [
        member.process or member.identity
        for member in seen.members
        if member.identity in last.members
        and _about(member)
        and last.members[member.identity][2] not in {"", _about(member)}
    ]
    return Finding("rejoin", LIKELY, f"{some(changed)} says something else of itself") if changed else None


FINDINGS: tuple[Callable[[Generation, Last, Memory], Finding | None], ...] = (
    _membership,
    _static_restart,
    _topics,
    _follow_up,
    _probe,
    _error,
    _said_otherwise,
    _leader,
)
"""In the order in which they name the cause."""


def _by_elimination(seen: Generation, last: Last, note: str, joined: list[str], gone: list[str]) -> Cause:
    same = "the same members and topics as before"
    readable = all(member.unreadable is None for member in seen.members)
    if note or not (last.asking_known and readable):
        why = "whether a follow-up or a probe was due cannot be read" if not note else "more cannot be known"
        return Cause(None, None, f"{same}; {why}{note}", joined, gone)
    if last.ours and last.due_ms is not None:
        early_ms = last.due_ms - seen.place.time_ms
        evidence = (
            f"{same}, and a probe was due in {early_ms} ms; a leader of ours asks earlier where copies have caught up"
        )
        return Cause("probe", LIKELY, evidence, joined, gone)
    evidence = f"{same}, and neither a follow-up nor a probe was due: a member rejoined for a reason of its own"
    return Cause("rejoin", GUESS, evidence, joined, gone)


def some(names: Collection[str]) -> str:
    """The first few, and how many more."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - NAMED_MAX
    return ", ".join(distinct[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
