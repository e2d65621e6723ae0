"""A slow, plain reading of a streams group's records: all of them at hand, and the group built again for each question.

It knows nothing of batches or memory. What lives here: the rows of ``rebalances``, ``task_placements`` and
``movements`` that ``derive`` is to find, as far as they do not need words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kstreams_assign.wire import (
    OffsetCommitKey,
    StreamsCurrentTasks,
    StreamsGroupMetadata,
    StreamsMemberMetadata,
    StreamsTargetMetadata,
    decode_offsets_key,
    decode_streams_key,
    decode_streams_value,
)
from kstreams_assign.wire.streams_records import CURRENT_MEMBER, GROUP, MEMBER, TARGET, TARGET_MEMBER
from tests.history.streams_coordinator import INPUTS, Record

TEN_MINUTES, A_MINUTE = 600_000, 60_000


@dataclass
class World:
    """The group after a number of records."""

    members: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, StreamsCurrentTasks] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def running(self, member_id: str) -> set[str]:
        value = self.tasks.get(member_id)
        return set() if value is None else names(value.active_tasks, value.active_tasks_pending_revocation)

    def copies(self, process: str) -> set[str]:
        held = [value for member_id, value in self.tasks.items() if self.members.get(member_id) == process]
        return {
            task
            for value in held
            for task in names(value.standby_tasks, value.standby_tasks_pending_revocation, value.warmup_tasks)
        }


def names(*rows: Any) -> set[str]:
    return {f"{row.subtopology_id}_{partition}" for held in rows for row in held for partition in row.partitions}


@dataclass
class Ended:
    """A target and its end, as indexes of records; no end, no row."""

    began: int
    epoch: int
    members: dict[str, str]
    end: int | None = None
    state: str = ""


class Life:
    """The records of a group from its beginning to its deletion."""

    def __init__(self, records: Sequence[Record], *, deleted: bool) -> None:
        self.records = records
        self.deleted = deleted
        self.keys = [decode_streams_key(record.key) for record in records]
        self.values = [
            None if key is None or record.value is None else decode_streams_value(key.type, record.value)
            for key, record in zip(self.keys, records, strict=True)
        ]
        self.worlds = [self._world(index) for index in range(len(records))]

    def _world(self, last: int) -> World:
        world = World()
        for key, value in zip(self.keys[: last + 1], self.values[: last + 1], strict=True):
            if key is None:
                continue
            if key.type == MEMBER and isinstance(value, StreamsMemberMetadata):
                world.members[key.member_id] = value.process_id
            elif key.type == MEMBER:
                world.members.pop(key.member_id, None)
                world.tasks.pop(key.member_id, None)
            elif key.type == TARGET_MEMBER:
                (world.named.discard if value is None else world.named.add)(key.member_id)
            elif key.type == CURRENT_MEMBER and isinstance(value, StreamsCurrentTasks):
                world.tasks[key.member_id] = value
            elif key.type == CURRENT_MEMBER:
                world.tasks.pop(key.member_id, None)
        return world

    @cached_property
    def rebalances(self) -> list[Ended]:
        found: list[Ended] = []
        for index, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            members = self.worlds[index].members
            known = found[-1] if found else None
            if isinstance(value, StreamsTargetMetadata):
                if known is None or value.assignment_epoch > known.epoch:
                    found.append(Ended(index, value.assignment_epoch, members))
            elif isinstance(value, StreamsGroupMetadata) and not members and known is not None and known.members:
                found.append(Ended(index, value.epoch, {}, index, "empty"))
            assert key is None or key.type != TARGET or value is None or found
        for at, each in enumerate(found):
            following = found[at + 1].began if at + 1 < len(found) else None
            if each.end is None:
                self._find_end(each, following, first=at == 0)
        return found

    def began_ms(self, number: int) -> int | None:
        """When the group's epoch first rose after the target before."""
        after = self.rebalances[number - 1].began if number else -1
        epoch = -1
        for index in range(self.rebalances[number].began + 1):
            value = self.values[index]
            if isinstance(value, StreamsGroupMetadata):
                if index > after and value.epoch > epoch:
                    return self.records[index].time_ms
                epoch = value.epoch
        return None

    def _find_end(self, target: Ended, following: int | None, *, first: bool) -> None:
        for index in range(target.began, len(self.records) if following is None else following):
            world = self.worlds[index]
            there = target.members.keys() & world.members.keys()
            awaited = [world.tasks.get(member) for member in there | (world.named if first else set())]
            stable = all(value and (value.member_epoch, value.state) == (target.epoch, 1) for value in awaited)
            if isinstance(self.values[index], StreamsCurrentTasks) and awaited and stable:
                target.end, target.state = index, "stable"
                return
        if following is not None or self.deleted:
            target.end = len(self.records) - 1 if following is None else following
            target.state = "reconciling"

    @cached_property
    def owners(self) -> dict[str, list[tuple[int, str]]]:
        """Task -> each index at which another process took it, and that process."""
        taken: dict[str, list[tuple[int, str]]] = {}
        for index, task, process in self._takes():
            events = taken.setdefault(task, [])
            if not events or events[-1][1] != process:
                events.append((index, process))
        return taken

    def _takes(self) -> Iterator[tuple[int, str, str]]:
        before = World()
        for index, world in enumerate(self.worlds):
            for member_id in world.tasks:
                for task in world.running(member_id) - before.running(member_id):
                    yield index, task, world.members[member_id]
            before = world

    def movements(self) -> Iterator[tuple[Any, ...]]:
        for task, events in self.owners.items():
            for number in range(1, len(events)):
                row = self._movement(task, events, number)
                if row is not None:
                    yield row

    def _movement(self, task: str, events: list[tuple[int, str]], number: int) -> tuple[Any, ...] | None:
        (since, old), (taken, new) = events[number - 1], events[number]
        following = events[number + 1][0] if number + 1 < len(events) else None
        ended = [each for each in self.rebalances if each.end is not None]
        rebalance = next((each for each in ended if each.end >= taken), ended[-1] if self.deleted and ended else None)
        if rebalance is None:
            return None
        taken_ms = self.records[taken].time_ms
        settled, commit = self._settled(task, taken, following)
        if not settled:
            return None
        released, by_removal = self._released(task, since, taken)
        planned = old in self.worlds[taken].members.values()
        held_ms = self._held_ms(task, new, taken)
        last_ms = self._last_commit_ms(task, events[number - 1], taken, released, by_removal=by_removal)
        gap_ms = None
        if commit is not None and last_ms is not None and not (held_ms is not None and self._idle(new, taken, commit)):
            silent_ms = self.records[commit].time_ms - last_ms
            gap_ms = silent_ms if silent_ms >= 0 else None
        place = (rebalance.epoch, self.records[rebalance.end].offset)
        return (*place, task, old, new, planned, held_ms, gap_ms, self.records[released].time_ms, taken_ms)

    def _settled(self, task: str, taken: int, following: int | None) -> tuple[bool, int | None]:
        """Whether the row is written, and the index of the commit that ends its gap."""
        for index in range(taken + 1, len(self.records)):
            if index == following:
                return True, None
            if self.records[index].time_ms > self.records[taken].time_ms + TEN_MINUTES:
                return True, None
            if self._commits(index, task):
                return True, index
        return self.deleted, None

    def _commits(self, index: int, task: str) -> bool:
        """Whether a process commits the task; in a group without members it is an operator."""
        key = decode_offsets_key(self.records[index].key)
        subtopology, _, partition = task.partition("_")
        if not isinstance(key, OffsetCommitKey) or not self.worlds[index].members:
            return False
        return key.topic in INPUTS[subtopology] and str(key.partition) == partition

    def _released(self, task: str, since: int, taken: int) -> tuple[int, bool]:
        """The index at which the last member gave the task up, and whether it was removed."""
        for index in range(taken, since, -1):
            before, after = self.worlds[index - 1], self.worlds[index]
            for member_id in before.tasks:
                if task in before.running(member_id) and task not in after.running(member_id):
                    return index, self.values[index] is None
        raise AssertionError(task)

    def _held_ms(self, task: str, process: str, taken: int) -> int | None:
        """Backwards from the take: a copy that was given up counts until a rebalance ends without its being taken."""
        ends = {each.end for each in self.rebalances if each.state == "stable"}
        since = None
        for index in range(taken - 1, -1, -1):
            world = self.worlds[index]
            if task in world.copies(process):
                since = index
            elif index in ends or any(
                task in world.running(member) and world.members[member] == process for member in world.tasks
            ):
                break
        return None if since is None else max(0, self.records[taken].time_ms - self.records[since].time_ms)

    def _last_commit_ms(
        self, task: str, owner: tuple[int, str], taken: int, released: int, *, by_removal: bool
    ) -> int | None:
        since, process = owner
        commits = [index for index in range(since + 1, released) if self._commits(index, task)]
        if not commits:
            return None
        last_ms = self.records[commits[-1]].time_ms
        released_ms = self.records[released].time_ms - (A_MINUTE if by_removal else 0)
        alive_ms = max(released_ms, self._last_commit_of(process, taken))
        return None if alive_ms - last_ms > A_MINUTE else last_ms

    def _last_commit_of(self, process: str, before: int, after: int = -1) -> int:
        """When the process last committed any task that it then owned; 0 if it did not.

        Only commits between the indexes ``after`` and ``before`` count.
        """
        commits: list[int] = []
        for task, events in self.owners.items():
            known = [event for event in events if event[0] < before]
            if known and known[-1][1] == process:
                indexes = range(max(known[-1][0], after) + 1, before)
                commits += [index for index in indexes if self._commits(index, task)]
        return self.records[max(commits)].time_ms if commits else 0

    def _idle(self, process: str, taken: int, commit: int) -> bool:
        return self._last_commit_of(process, commit, taken) - self.records[taken].time_ms > A_MINUTE


def lives(records: Sequence[Record]) -> Iterator[Life]:
    start = 0
    for index, record in enumerate(records):
        key = decode_streams_key(record.key)
        if key is not None and key.type == GROUP and record.value is None:
            yield Life(records[start : index + 1], deleted=True)
            start = index + 1
    yield Life(records[start:], deleted=False)


def expected(records: Sequence[Record]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table, sorted, with the columns that ``test_streams_derive`` compares."""
    rows: dict[str, list[tuple[Any, ...]]] = {"rebalances": [], "task_placements": [], "movements": []}
    for life in lives(records):
        moves = list(life.movements())
        rows["movements"] += moves
        for at, target in enumerate(life.rebalances):
            if target.end is None:
                continue
            place = (target.epoch, life.records[target.end].offset)
            taken = moved_in(life, target, at)
            planned = [old in life.worlds[index].members.values() for index, old in taken]
            counted = (None, None) if at == 0 else (sum(planned), len(planned) - sum(planned))
            if at == 0:  # in a compacted topic, a member's record may stand behind its target's
                world = life.worlds[target.end]
                target.members |= {name: process for name, process in world.members.items() if name in world.named}
            processes = len(set(target.members.values()))
            row = (*place, target.state, len(target.members), processes, life.began_ms(at), *counted)
            rows["rebalances"].append(row)
            world = life.worlds[target.end]
            for member_id, value in world.tasks.items():
                process = world.members[member_id]
                for role, held in (("active", value.active_tasks), ("standby", value.standby_tasks)):
                    rows["task_placements"] += [(*place, task, role, process, member_id) for task in names(held)]
    return {name: sorted(found) for name, found in rows.items()}


def moved_in(life: Life, target: Ended, at: int) -> list[tuple[int, str]]:
    """Where tasks were taken by another process between the end before and this one, and the old process."""
    before = life.rebalances[at - 1].end if at else None
    return [
        (events[number][0], events[number - 1][1])
        for events in life.owners.values()
        for number in range(1, len(events))
        if (-1 if before is None else before) < events[number][0] <= (target.end or 0)
    ]
