"""What a broker would assign if members joined or left a streams group, or its number of standbys changed.

The broker computes a target when a member's heartbeat finds the group changed, at most once in its assignment interval
(``group.streams.assignment.interval.ms``, 1 s). Members that come within the interval are assigned together. So the
target is a function of what the caller knows except for two things: which members are assigned together, and, for
members whose ids share a bucket of Java's hash table, their order. Each prediction plays all the combinations and holds
the distinct targets, most likely first. Pure, and without a clock. What must not live here: the rules of the
assignor (``java.streams_sticky``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kstreams_assign.assign.java.member_table import MemberTable, possible_tables, smallest_table
from kstreams_assign.assign.java.streams_sticky import (
    StreamsMember,
    SubtopologyTasks,
    TargetTasks,
    assign_streams_tasks,
    hash_order,
)
from kstreams_assign.errors import ConfigError

Target = Mapping[str, TargetTasks]
"""Member id -> its target assignment."""


@dataclass(frozen=True, slots=True)
class StreamsGroupInput:
    """What the coordinator computes a target from.

    ``members`` have their present target assignment, and are in the order of StreamsGroupDescribe's answer.
    """

    members: tuple[StreamsMember, ...]
    subtopologies: Mapping[int, SubtopologyTasks]
    num_standby_replicas: int = 0

    @property
    def target(self) -> Target:
        return {member.member_id: TargetTasks(member.active, member.standby) for member in self.members}


@dataclass(frozen=True, slots=True)
class Prediction:
    """The targets that can come of a change, most likely first; at least one. Departed members are absent."""

    targets: tuple[Target, ...]

    @property
    def is_certain(self) -> bool:
        return len(self.targets) == 1

    @property
    def likely(self) -> Target:
        return self.targets[0]


def predict_join(group: StreamsGroupInput, newcomers: Sequence[StreamsMember]) -> Prediction:
    """Return the targets after these members joined, in this order. Their tasks have to be empty, as at a first join.

    Raises ``ConfigError`` for no newcomer, for one that is in the group, and for one that has tasks.
    """
    _check_newcomers(group, newcomers)
    player = _Player(group)
    return _distinct(
        player.play_joins(table.copy(), newcomers, [_Batch(count, is_delayed) for count in counts])[-1]
        for counts in _join_batches(len(newcomers), is_first=not group.members)
        for table in _tables(group)
        for is_delayed in (False, True)
    )


def predict_joiners(
    group: StreamsGroupInput, newcomers: Sequence[StreamsMember], *, is_interval_open: bool
) -> tuple[Target, ...]:
    """Return the targets that follow each other while these members join in quick succession, in this order.

    The first is assigned at its join; the others join within the assignment interval and are assigned together, at a
    later heartbeat. ``is_interval_open``: the group was assigned so lately that the first is one of the others. Raises
    ``ConfigError`` as ``predict_join`` does.
    """
    _check_newcomers(group, newcomers)
    later = len(newcomers) if is_interval_open else len(newcomers) - 1
    batches = [*([] if is_interval_open else [_Batch(1, is_delayed=False)]), *([_Batch(later, True)] if later else [])]
    return tuple(_Player(group).play_joins(_tables(group)[0].copy(), newcomers, batches))


def predict_leave(group: StreamsGroupInput, member_ids: Collection[str]) -> Prediction:
    """Return the targets after these members left the group, together or one after another.

    Raises ``ConfigError`` for a member that is not in the group.
    """
    leaving = list(dict.fromkeys(member_ids))
    if strangers := set(leaving) - group.target.keys():
        raise ConfigError(f"member {min(strangers)} is not in the streams group")
    player = _Player(group)
    return _distinct(player.play_leaves(stages) for stages in ([leaving], [[member_id] for member_id in leaving]))


def predict_standbys(group: StreamsGroupInput, num_standby_replicas: int) -> Prediction:
    """Return the target after the group's ``streams.num.standby.replicas`` changed."""
    changed = replace(group, num_standby_replicas=num_standby_replicas)
    return Prediction((_Player(changed).assign(group.members),))


def _check_newcomers(group: StreamsGroupInput, newcomers: Sequence[StreamsMember]) -> None:
    if not newcomers:
        raise ConfigError("member_ids is empty; a process joins with at least one member")
    known = set(group.target)
    for member in newcomers:
        if member.member_id in known:
            raise ConfigError(f"member {member.member_id} is in the streams group already")
        if member.active or member.standby:
            raise ConfigError(f"member {member.member_id} has tasks; a member joins without any")
        known.add(member.member_id)


def _join_batches(count: int, *, is_first: bool) -> list[list[int]]:
    """Return the sizes of the batches in which members that join together are assigned.

    The first members of a group wait together for ``group.streams.initial.rebalance.delay.ms``. Later the first is
    assigned at once, and the others after the interval; or some come so late that each is assigned by itself.
    """
    together, singly, first_then_rest = [count], [1] * count, [1, count - 1]
    if count == 1 or is_first:
        return [together]
    return [first_then_rest, together, singly]


def _tables(group: StreamsGroupInput) -> list[MemberTable]:
    """Return the possible tables of the members; two guesses where the order of the members is of no table."""
    order = [member.member_id for member in group.members]
    guesses = [MemberTable.holding(each, smallest_table(len(order))) for each in (order, order[::-1])]
    return possible_tables(order) or guesses


@dataclass(frozen=True, slots=True)
class _Batch:
    """So many members that are assigned together; unless ``is_delayed``, at the join of the last of them."""

    count: int
    is_delayed: bool


class _Player:
    """Plays changes of one group. A target of the same members in the same order is computed once."""

    def __init__(self, group: StreamsGroupInput) -> None:
        self._group = group
        self._targets: dict[tuple[StreamsMember, ...], Target] = {}

    def play_joins(
        self, table: MemberTable, newcomers: Sequence[StreamsMember], batches: Sequence[_Batch]
    ) -> list[Target]:
        """Return the target after each batch.

        A member that is assigned at its join comes last, because the table does not have it yet.
        """
        members = {member.member_id: member for member in self._group.members}
        targets: list[Target] = []
        left = list(newcomers)
        for each in batches:
            batch, left = left[: each.count], left[each.count :]
            for member in batch[:-1]:
                table.put(member.member_id)
            order = [*table.order(), batch[-1].member_id]
            table.put(batch[-1].member_id)
            members.update((member.member_id, member) for member in batch)
            if each.is_delayed:
                order = table.order()
            target = self.assign([members[member_id] for member_id in order])
            members = {name: _given(member, target) for name, member in members.items()}
            targets.append(target)
        return targets

    def play_leaves(self, batches: Iterable[Sequence[str]]) -> Target:
        """Return the target after the members of each batch left together."""
        target, members = self._group.target, self._group.members
        for batch in batches:
            stay = [member for member in members if member.member_id not in batch]
            target = self.assign(stay)
            members = tuple(_given(member, target) for member in stay)
        return target

    def assign(self, members: Sequence[StreamsMember]) -> Target:
        if not members:
            return {}
        by_id = {member.member_id: member for member in members}
        key = tuple(by_id[member_id] for member_id in hash_order(list(by_id)))
        if key not in self._targets:
            self._targets[key] = assign_streams_tasks(
                members, self._group.subtopologies, self._group.num_standby_replicas
            )
        return self._targets[key]


def _given(member: StreamsMember, target: Target) -> StreamsMember:
    tasks = target[member.member_id]
    return replace(member, active=tasks.active, standby=tasks.standby)


def _distinct(targets: Iterable[Target]) -> Prediction:
    distinct: list[Target] = []
    for target in targets:
        if target not in distinct:
            distinct.append(target)
    return Prediction(tuple(distinct))
