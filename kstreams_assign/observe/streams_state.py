"""A streams group (KIP-1071) as a prediction starts from it: the broker's description as the assignor's input.

Pure. What must not live here: the prediction (``streams_what_if``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.assign.streams_group import StreamsGroupInput
from kstreams_assign.errors import NotAStreamsGroup
from kstreams_assign.model import TaskId
from kstreams_assign.observe.alternatives import called
from kstreams_assign.observe.streams_reasons import listed, member_names, missing_topics
from kstreams_assign.observe.streams_snapshot import SeenMember, StreamsSnapshot, StreamsTask
from kstreams_assign.observe.streams_what_if import HEARTBEAT_INTERVAL_MS, StreamsGroupState

STANDBYS = "streams.num.standby.replicas"
HEARTBEAT_INTERVAL = "streams.heartbeat.interval.ms"


@dataclass(frozen=True, slots=True)
class PlayableGroup:
    """``state`` to start from. ``subtopology_ids``: the broker's id of each numbered subtopology.

    ``assumed``: what the group and its broker did not tell, subject -> sentence.
    """

    state: StreamsGroupState
    subtopology_ids: Mapping[int, str]
    assumed: Mapping[str, str]

    def name(self, task: TaskId) -> str:
        """Return a task by the broker's id of its subtopology."""
        return str(StreamsTask(self.subtopology_ids[task.subtopology], task.partition))


def playable(snapshot: StreamsSnapshot) -> PlayableGroup:
    """Return the group with its present target, without tasks of subtopologies that its topology lacks.

    Raises ``NotAStreamsGroup`` for a group without members or tasks.
    """
    group = snapshot.group.group_id
    if not snapshot.members:
        raise NotAStreamsGroup(f"group {group} has no members: there is nothing to play")
    if not snapshot.tasks:
        why = snapshot.gaps.get("topics") or "no source topic of its topology exists"
        raise NotAStreamsGroup(f"group {group} has no tasks: {why}")
    numbers = _numbers(sub.subtopology_id for sub in snapshot.subtopologies)

    def numbered(tasks: Iterable[StreamsTask]) -> frozenset[TaskId]:
        known = (task for task in tasks if task.subtopology_id in numbers)
        return frozenset(TaskId(numbers[task.subtopology_id], task.partition) for task in known)

    assumed = {**snapshot.gaps, **_missing(snapshot), **_foreign(snapshot, numbers), **_away(snapshot)}
    seen = {member.described.member_id: member for member in snapshot.members}
    members = tuple(  # in the broker's order, which decides ties
        StreamsMember(
            described.member_id,
            described.process_id,
            numbered(seen[described.member_id].target.active),
            numbered(seen[described.member_id].target.standby),
        )
        for described in snapshot.group.members
    )
    subtopologies = {
        numbers[sub.subtopology_id]: SubtopologyTasks(
            sum(task.subtopology_id == sub.subtopology_id for task in snapshot.tasks),
            is_stateful=bool(sub.state_changelog_topics),
        )
        for sub in snapshot.subtopologies
    }
    sizes = {TaskId(numbers[task.subtopology_id], task.partition): n for task, n in snapshot.changelog_sizes.items()}
    if unknown := sum(size is None for size in sizes.values()):
        assumed["state"] = f"of {unknown} tasks the changelog's size is not known; it counts as nothing to read"
    state = StreamsGroupState(
        StreamsGroupInput(members, subtopologies, _standbys(snapshot, assumed)),
        {task: size or 0 for task, size in sizes.items()},
        _heartbeat_interval_ms(snapshot, assumed),
        away=frozenset(
            name for name, members in snapshot.processes.items() if all(member.is_away for member in members)
        ),
    )
    return PlayableGroup(state, {number: name for name, number in numbers.items()}, assumed)


def process_called(snapshot: StreamsSnapshot, word: str) -> str:
    """Return the process with this id (or prefix of it), member id, client id, instance id or endpoint.

    Raises ``ConfigError`` listing the processes if none or several match.
    """
    return called(
        word, {name: _names(members) for name, members in snapshot.processes.items()}, snapshot.group.group_id
    )


def _names(members: Iterable[SeenMember]) -> set[str]:
    names: set[str] = set()
    for member in members:
        described = member.described
        names |= {described.member_id, described.client_id}
        if described.instance_id:
            names.add(described.instance_id)
        if described.user_endpoint:
            names.add(str(described.user_endpoint))
    return names


def _numbers(ids: Iterable[str]) -> dict[str, int]:
    """Return a number for each id: Kafka Streams' own ids are numbers, others count in their order."""
    names = sorted(ids)
    if all(name.isdecimal() for name in names):
        return {name: int(name) for name in names}
    return {name: number for number, name in enumerate(names)}


def _missing(snapshot: StreamsSnapshot) -> dict[str, str]:
    missing = [] if "topics" in snapshot.gaps else missing_topics(snapshot)["sources"]
    if not missing:
        return {}
    names = ", ".join(missing)
    text = f"source topics do not exist: {names}; their tasks are left out, and the broker assigns none at all"
    return {"topics": text}


def _foreign(snapshot: StreamsSnapshot, known: Collection[str]) -> dict[str, str]:
    """Name the target's subtopologies of an older topology: the brokers' assignor drops their tasks, too."""
    targets = [task for member in snapshot.members for task in (*member.target.active, *member.target.standby)]
    foreign = {task.subtopology_id for task in targets} - set(known)
    if not foreign:
        return {}
    names = ", ".join(sorted(foreign, key=lambda name: (len(name), name)))
    text = f"it lacks subtopologies that the target assignment has: {names}; their tasks are left out"
    return {"topology": text}


def _away(snapshot: StreamsSnapshot) -> dict[str, str]:
    names = member_names(snapshot)
    away = [names[member.described.member_id] for member in snapshot.members if member.is_away]
    if not away:
        return {}
    return {
        "away": f"{listed(away)}: closed, and to come back; a task that moves from or to a process that is away runs "
        "nowhere until it is back or its session ends; the classic group is played as if all members ran"
    }


def _standbys(snapshot: StreamsSnapshot, assumed: dict[str, str]) -> int:
    known = snapshot.settings.get(STANDBYS)
    if known is not None:
        return int(known)
    copies = [task for member in snapshot.members for task in member.target.standby]
    most = max(map(copies.count, copies), default=0)
    assumed[STANDBYS] = f"{most}, as many as a task has"
    return most


def _heartbeat_interval_ms(snapshot: StreamsSnapshot, assumed: dict[str, str]) -> int:
    known = snapshot.settings.get(HEARTBEAT_INTERVAL)
    if known is not None:
        return int(known)
    assumed[HEARTBEAT_INTERVAL] = f"{HEARTBEAT_INTERVAL_MS:,} ms, the default"
    return HEARTBEAT_INTERVAL_MS
