"""Records of a streams group (KIP-1071) become rows of the tables that classic groups have.

What lives here: when a rebalance begins and ends, and what each type of record changes. What must not: gaps of tasks
(``streams_moves``), causes, and the order of columns (``streams_rows``).

The broker raises the group epoch (type 17), writes the target assignment (21) and its epoch (20), and each member then
moves towards it on its own (22), so a rebalance is no single record. It begins with the epoch and ends with the record
that brings the last member to it. The next target ends it, too; then it was never completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kstreams_assign.history.records import EndOffset, sampled_near
from kstreams_assign.history.seen import Place
from kstreams_assign.history.streams_causes import streams_cause
from kstreams_assign.history.streams_memory import CurrentTasks, StoredStreamsMember, StreamsMemory, Target
from kstreams_assign.history.streams_moves import (
    At,
    commit_of_streams,
    forget_dropped_copies,
    settle,
    settle_overdue,
    settled_moves,
    take_tasks,
)
from kstreams_assign.history.streams_rows import StreamsGeneration, add_generation, add_movements
from kstreams_assign.history.tables import Tables
from kstreams_assign.wire import (
    OwnedTasks,
    StreamsCurrentTasks,
    StreamsGroupMetadata,
    StreamsGroupTopology,
    StreamsKey,
    StreamsMemberMetadata,
    StreamsTargetMetadata,
    StreamsTargetTasks,
    StreamsValue,
)
from kstreams_assign.wire.streams_records import CURRENT_MEMBER, GROUP, MEMBER, TARGET_MEMBER

STABLE, EMPTY, RECONCILING = "stable", "empty", "reconciling"
"""How a rebalance ended: every member has the epoch, no member is left, or the next target came before."""

MEMBER_STABLE = 1
"""Kafka's ``MemberState.STABLE``: it has all tasks of its target and none to give up."""


class StreamsGroup:
    """One streams group while its records pass; ``memory`` is all that it keeps."""

    def __init__(self, group: str, memory: StreamsMemory, tables: Tables, ends: Sequence[EndOffset]) -> None:
        self._group = group
        self.memory = memory
        self._tables = tables
        self._ends = ends

    def take(self, key: StreamsKey, value: StreamsValue, place: tuple[int, int], time_ms: int) -> bool:
        """Use a record at ``place`` (partition and offset). False: its epoch is over, so it was not used."""
        _, offset = place
        match value:
            case StreamsGroupMetadata():
                return self._group_epoch(value, place, time_ms)
            case StreamsMemberMetadata():
                self._member(key.member_id or "", _stored(value, offset), time_ms)
            case StreamsTargetMetadata():
                self._new_target(value.assignment_epoch, place, time_ms)
            case StreamsCurrentTasks():
                if self.memory.target is not None:  # the record of a target that could not be read
                    self._new_target(value.member_epoch, place, time_ms)
                self._take_tasks(key.member_id or "", _current(value), offset, time_ms)
                self._end_if_all_are_stable(place, time_ms)
            case StreamsGroupTopology():
                self._topology(value, offset)
            case StreamsTargetTasks():  # the record of its tasks shows when it has them
                self.memory.named = sorted({*self.memory.named, key.member_id or ""})
        self._write_movements()
        return True

    def delete(self, key: StreamsKey, place: tuple[int, int], time_ms: int) -> bool:
        """A record without a value. True: the group itself is deleted, and ``forget`` is to follow."""
        member_id = key.member_id or ""
        if key.type in {CURRENT_MEMBER, MEMBER}:
            self._take_tasks(member_id, None, place[1], time_ms)
        if key.type == MEMBER:
            self.memory.members.pop(member_id, None)
        if key.type == TARGET_MEMBER and member_id in self.memory.named:
            self.memory.named.remove(member_id)
        return key.type == GROUP

    def commit(self, partition: str, time_ms: int, offset: int) -> None:
        """A committed offset of an input partition."""
        commit_of_streams(self.memory, partition, time_ms, offset)
        self._write_movements()

    def expire(self, now_ms: int) -> None:
        """As of a record of ``now_ms``."""
        if self.memory.moves:
            settle_overdue(self.memory, now_ms)
            self._write_movements()

    def forget(self, place: tuple[int, int], time_ms: int) -> None:
        """The group ends: write what is open."""
        self._end_if_open(RECONCILING, place, time_ms)
        settle(self.memory.moves)
        if self.memory.target is not None:
            for move in self.memory.moves:  # behind the end of the last rebalance
                move.place = move.place or self.memory.target.place
        self._write_movements()

    def _group_epoch(self, value: StreamsGroupMetadata, place: tuple[int, int], time_ms: int) -> bool:
        memory = self.memory
        if value.epoch < memory.epoch:
            if time_ms <= memory.epoch_ms:
                return False
            self._start_over(place, time_ms)
            memory = self.memory
        if value.epoch > memory.epoch and memory.pending_since_ms is None:
            memory.pending_since_ms = time_ms
        memory.epoch, memory.epoch_ms, memory.epoch_offset = value.epoch, time_ms, place[1]
        memory.metadata_hash = value.metadata_hash
        memory.configs = dict(value.last_assignment_configs or {})
        if not memory.members and memory.target is not None and memory.target.members:
            self._new_target(value.epoch, place, time_ms)
            self._end_if_open(EMPTY, place, time_ms)
        self._write_movements()
        return True

    def _start_over(self, place: tuple[int, int], time_ms: int) -> None:
        """The group was deleted and created again, and no tombstone shows it: keep what came since its last epoch."""
        self.forget(place, time_ms)
        old = self.memory
        new = StreamsMemory()
        new.members = {name: member for name, member in old.members.items() if member.offset > old.epoch_offset}
        if old.topology_offset > old.epoch_offset:
            new.topology_epoch, new.topology_offset = old.topology_epoch, old.topology_offset
            new.sources, new.changelogs = old.sources, old.changelogs
        self.memory = new

    def _member(self, member_id: str, stored: StoredStreamsMember, time_ms: int) -> None:
        """If its process is another, the tasks that it owns are that process's from now on."""
        memory = self.memory
        tasks = memory.current.get(member_id)
        if tasks is None or memory.process_of(member_id) == stored.process_id:
            memory.members[member_id] = stored
            return
        self._take_tasks(member_id, None, stored.offset, time_ms)
        memory.members[member_id] = stored
        self._take_tasks(member_id, tasks, stored.offset, time_ms)

    def _take_tasks(self, member_id: str, tasks: CurrentTasks | None, offset: int, time_ms: int) -> None:
        take_tasks(self.memory, member_id, tasks, At(time_ms, offset), sampled_near(self._ends, time_ms))

    def _topology(self, value: StreamsGroupTopology, offset: int) -> None:
        memory = self.memory
        memory.topology_epoch, memory.topology_offset = value.epoch, offset
        memory.sources = {
            part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
            for part in value.subtopologies
        }
        memory.changelogs = {
            part.subtopology_id: [topic.name for topic in part.state_changelog_topics] for part in value.subtopologies
        }

    def _new_target(self, epoch: int, place: tuple[int, int], time_ms: int) -> None:
        memory = self.memory
        if memory.target is not None and epoch <= memory.target.epoch:
            return  # written again
        self._end_if_open(RECONCILING, place, time_ms)
        memory.before, memory.target = (
            memory.target,
            Target(
                epoch=epoch,
                began_ms=memory.pending_since_ms,
                members=dict(memory.members),
                metadata_hash=memory.metadata_hash,
                topology_epoch=memory.topology_epoch,
                configs=memory.configs,
            ),
        )
        memory.pending_since_ms = None

    def _end_if_all_are_stable(self, place: tuple[int, int], time_ms: int) -> None:
        target = self.memory.target
        if target is None or target.place is not None:
            return
        current = [self.memory.current.get(member_id) for member_id in self._awaited(target)]
        if current and all(
            tasks is not None and tasks.epoch == target.epoch and tasks.state == MEMBER_STABLE for tasks in current
        ):
            self._end_if_open(STABLE, place, time_ms)

    def _awaited(self, target: Target) -> set[str]:
        """The members that the end of a rebalance waits for. A compacted topic may show some only later."""
        there = target.members.keys() & self.memory.members.keys()
        return there | set(self.memory.named) if self.memory.before is None else there

    def _end_if_open(self, state: str, place: tuple[int, int], time_ms: int) -> None:
        """Write the rows of the rebalance, with ``place`` as theirs."""
        memory, target = self.memory, self.memory.target
        if target is None or target.place is not None:
            return
        at = Place(self._group, target.epoch, *place, time_ms)
        target.place = list(at)
        if memory.before is None:  # of a compacted topic, the record of a member may stand behind the target's
            target.members |= {name: member for name, member in memory.members.items() if name in memory.named}
        moves = [move for move in memory.moves if move.place is None]
        for move in moves:
            move.place = list(at)
        planned = sum(move.planned for move in moves)
        counted = (None, None) if memory.before is None else (planned, len(moves) - planned)
        seen = StreamsGeneration(at, state, target, memory)
        cause = streams_cause(target, memory.before, completed=state != RECONCILING)
        add_generation(self._tables, seen, cause, counted, sampled_near(self._ends, time_ms))
        if state == STABLE:
            forget_dropped_copies(memory)

    def _write_movements(self) -> None:
        if self.memory.moves:
            add_movements(self._tables, settled_moves(self.memory))


def _stored(value: StreamsMemberMetadata, offset: int) -> StoredStreamsMember:
    endpoint = value.user_endpoint
    return StoredStreamsMember(
        offset=offset,
        process_id=value.process_id,
        instance_id=value.instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        endpoint=None if endpoint is None else str(endpoint),
        tags=[list(pair) for pair in value.client_tags.items()],
    )


def _current(value: StreamsCurrentTasks) -> CurrentTasks:
    return CurrentTasks(
        epoch=value.member_epoch,
        state=value.state,
        active=_tasks(value.active_tasks),
        standby=_tasks(value.standby_tasks),
        warmup=_tasks(value.warmup_tasks),
        revoking=_tasks(value.active_tasks_pending_revocation),
        dropping=_tasks((*value.standby_tasks_pending_revocation, *value.warmup_tasks_pending_revocation)),
    )


def _tasks(rows: Iterable[OwnedTasks]) -> list[str]:
    return sorted(f"{row.subtopology_id}_{partition}" for row in rows for partition in row.partitions)
