"""A process as a value: members that share a state directory, its cleaner, and the states that must never occur.

A task's folder is there or not, locked by one member or by none; ``offered`` are tasks that the table of offset sums
calls dormant. A member's *promise* is what it reported as dormant under the mutex, and lives until it has locked what
it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kstreams_assign.group.member import State
from kstreams_assign.state.mutex import MutexState

Tasks = frozenset[str]
NO_TASKS: Tasks = frozenset()
UNJOINED, PREPARING, JOINING, RELEASING, STABLE, CLOSED = (state.value for state in State)  # texts are quick to hash
WAITING = (JOINING, RELEASING)


class Machine(NamedTuple):
    """A member's machine without what cannot matter here: words of reasons, dates of probes.

    Generations are new or old.
    """

    state: str = UNJOINED
    wish: str | None = None


class Seat(NamedTuple):
    """A member, with its client and its share of the loop's orders."""

    machine: Machine = Machine()
    client: str = "idle"  # due: JoinGroup may leave at any moment; sent; answered: SyncGroup is on its way; left
    promised: Tasks = NO_TASKS
    under: bool = True  # the report was made while the mutex was held
    excused: bool = False  # the hold was overdue before the assignment was adopted
    again: bool = False  # engine.membership: report_again
    lacking: bool = False  # the leader's report has less, or other state, than the disk
    orders: tuple[tuple[str, Tasks], ...] = ()
    closing: Tasks = NO_TASKS
    releasing: bool = False
    telling: str = ""  # the loop is about to report that all is released: of the newest assignment, or of a late one

    @property
    def closed(self) -> bool:
        return self.machine.state == CLOSED

    @property
    def at_rest(self) -> bool:
        """No join is under way and none will be without a new event."""
        return self.machine.state not in WAITING and self.client in ("idle", "left") and not self.orders


class World(NamedTuple):
    """All of it. ``cleaner``: out, in, or took (the folder is gone and its sum is still to be forgotten)."""

    seats: tuple[Seat, ...]
    mutex: MutexState
    on_disk: Tasks
    offered: Tasks
    locks: frozenset[tuple[str, int]] = frozenset()
    cleaner: str = "out"
    taken: Tasks = NO_TASKS
    list_of_idle: Tasks = NO_TASKS

    def owner(self, task: str) -> int | None:
        return next((number for locked, number in self.locks if locked == task), None)

    def with_seat(self, number: int, seat: Seat) -> World:
        return self._replace(seats=(*self.seats[:number], seat, *self.seats[number + 1 :]))


def plain(world: World) -> World:
    """The same without what can make no difference any more, so that there are fewer worlds."""
    seats = tuple(_plain(seat, holds=(number in world.mutex.reporting)) for number, seat in enumerate(world.seats))
    return world if seats == world.seats else world._replace(seats=seats)


def _plain(seat: Seat, *, holds: bool) -> Seat:
    state, promised = seat.machine.state, seat.promised
    if state == CLOSED:
        client = "left" if seat.client in ("idle", "left") else "sent"
        return Seat(Machine(state), client, orders=seat.orders, closing=seat.closing)
    reported = seat.client in ("sent", "answered") or state in (RELEASING, STABLE)
    return seat._replace(
        under=seat.under or not promised,
        excused=seat.excused and (holds or bool(promised)),
        again=seat.again and state == STABLE,
        lacking=seat.lacking and reported,
    )


def first_world(members: int, tasks: int) -> World:
    """A process that has just started: what is on disk is dormant and long idle."""
    on_disk = frozenset("abc"[:tasks])
    return World((Seat(),) * members, MutexState(), on_disk, on_disk)


def wrongs(world: World) -> Iterator[str]:
    """What must never be. Each is one sentence."""
    mutex = world.mutex
    if mutex.cleaning and mutex.held:
        yield "the cleaner and a report are inside at once"
    if mutex.cleaning != (world.cleaner != "out"):
        yield "the mutex says that the cleaner runs and it does not, or the other way round"
    if not world.on_disk >= {task for task, _ in world.locks}:
        yield "a folder that a member has locked is deleted"
    for number, seat in enumerate(world.seats):
        yield from _wrongs_of(world, number, seat)


def _wrongs_of(world: World, number: int, seat: Seat) -> Iterator[str]:
    holds = number in world.mutex.reporting
    if seat.promised and not seat.under:
        yield "dormant state was promised without the mutex"
    if seat.promised and not seat.excused and not seat.closed and not seat.promised <= world.on_disk:
        yield "a folder that a member has reported and may still be assigned is deleted"
    if holds and seat.closed:
        yield "a closed member holds the mutex"
    if holds and seat.at_rest:
        yield "no join is under way and the mutex is held"
    if holds and seat.client == "left" and not seat.closed:
        yield "its thread has ended and the member holds the mutex"
    if holds and seat.excused:
        yield "a hold that was overdue has ended and is held"
    if seat.at_rest and seat.machine.state == STABLE and seat.lacking and not seat.again:
        yield "the leader has a wrong report and will not get another"


WAITS = "a JoinGroup waits for the cleaner"
STARVED = "a join that is never answered keeps the cleaner out for ever"


def waits(world: World, following: Sequence[World]) -> bool:
    """Whether a member whose JoinGroup is due cannot send it now. Heartbeats come from the same loop."""
    due = {number for number, seat in enumerate(world.seats) if seat.client == "due"}
    sent = {n for then in following for n in due if then.seats[n].client == "sent" and not then.seats[n].closed}
    return sent != due
