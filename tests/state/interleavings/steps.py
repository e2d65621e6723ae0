"""What may come next, as the members, their client, the loop and the cleaner of this package take it.

The mutex and the members' machine are the real ones; the client's tries, the loop's orders, the directory and the
cleaner are a small model of ``worker.membership``, ``worker.processing`` and ``state.cleaner``. Each step is what one
thread does without another being able to come in between. ``planted`` overrides the methods that are one decision each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kstreams_assign.group import member as m
from kstreams_assign.group.member import State
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import NO_PROBE_MS
from kstreams_assign.state.mutex import MutexState
from tests.state.interleavings.world import NO_TASKS, STABLE, UNJOINED, Machine, Seat, Tasks, World

NOTHING = Adopted({}, frozenset(), frozenset())
ASSIGNED, LOST, WANTED = m.Assigned(1, NOTHING), m.MembershipLost("lost"), m.RejoinWanted("wanted")
STARTED, COMMITTED, CLOSE = m.Started(), m.WorkCommitted(), m.CloseAsked()
RELEASED, RELEASED_BEFORE = m.TasksReleased(1), m.TasksReleased(0)
_SAID: dict[tuple[Machine, int], tuple[Machine, tuple[m.Action, ...]]] = {}
NEWEST, LATE = "newest", "late"
FRESH_MS, STALE_MS = 0, -1
"""Holds begin at 0. Where time passes they are moved back, and the cleaner counts those as overdue."""

Next = Iterator[tuple[str, World]]


class Plan(NamedTuple):
    """Which kinds of trouble come in; all of them unless a search is to go deeper."""

    lost: bool = True
    close: bool = True
    fatal: bool = True
    wish: bool = True
    patience: bool = True  # time passes beyond what a rebalance may take


def machine_says(before: Machine, event: m.Event) -> tuple[Machine, tuple[m.Action, ...]]:
    """The real machine's answer, asked once for each of its states."""
    key = (before, id(event))
    if key not in _SAID:
        _SAID[key] = _asked(before, event)
    return _SAID[key]


def _asked(before: Machine, event: m.Event) -> tuple[Machine, tuple[m.Action, ...]]:
    machine = m.Member()
    machine.state, machine.wish, machine.rejoin_at_ms = State(before.state), before.wish, NO_PROBE_MS
    machine.generation = 1
    actions = machine.handle(event, 0)
    return Machine(machine.state.value, machine.wish and "wanted"), tuple(actions)


class Rules:
    """Every step, as it is right."""

    def __init__(self, plan: Plan = Plan()) -> None:  # noqa: B008  # a value
        self.plan = plan

    def next_worlds(self, world: World) -> Next:
        for number, seat in enumerate(world.seats):
            for label, following in self.member_steps(world, number, seat):
                yield f"m{number} {label}", following
        yield from self.cleaner_steps(world)
        if self.plan.patience and any(since_ms == FRESH_MS for _, since_ms in world.mutex.held):
            held = frozenset((holder, STALE_MS) for holder in world.mutex.reporting)
            yield "a rebalance takes longer than it may", world._replace(mutex=MutexState(held, world.mutex.cleaning))

    def starved(self, world: World) -> bool:
        """Whether the cleaner is kept out although every join that is under way takes longer than it may."""
        held = frozenset((holder, STALE_MS) for holder in world.mutex.reporting)
        return not world.mutex.cleaning and self.cleaning(MutexState(held)) is None

    # --- a member ---------------------------------------------------------------

    def member_steps(self, world: World, number: int, seat: Seat) -> Next:
        yield from self.client_steps(world, number, seat)
        yield from self.loop_steps(world, number, seat)
        if not seat.closed:
            yield from self.event_steps(world, number, seat)

    def event_steps(self, world: World, number: int, seat: Seat) -> Next:
        state = seat.machine.state
        if state == UNJOINED:
            yield "starts", self.tell(world, number, STARTED)
        if state == STABLE:
            yield "hears that the group rebalances", self.tell(world, number, WANTED)
            if seat.again and not world.mutex.cleaning:
                yield "reports again", self.report_again(world, number)
        if self.plan.wish and seat.machine.wish is None and state != STABLE:
            yield "wants a rebalance", self.tell(world, number, WANTED)
        if self.plan.lost and state != UNJOINED and not any(order == "drop" for order, _ in seat.orders):
            yield "is fenced", self.tell(world, number, LOST)
        if self.plan.close:
            yield "is closed", self.tell(world, number, CLOSE)

    def report_again(self, world: World, number: int) -> World:
        return self.tell(world.with_seat(number, world.seats[number]._replace(again=False)), number, WANTED)

    def tell(self, world: World, number: int, event: m.Event) -> World:
        """The real machine decides; its actions are carried out in order."""
        machine, actions = machine_says(world.seats[number].machine, event)
        world = world.with_seat(number, world.seats[number]._replace(machine=machine))
        for action in self.actions(event, actions):
            world = self.carry_out(world, number, action)
        if actions and isinstance(event, m.CloseAsked):  # the loop then closes every task
            seat = world.seats[number]
            world = world.with_seat(number, seat._replace(orders=(("drop", NO_TASKS),), releasing=False))
        return world

    def actions(self, _event: m.Event, actions: Sequence[m.Action]) -> Sequence[m.Action]:
        return actions

    def carry_out(self, world: World, number: int, action: m.Action) -> World:
        seat = world.seats[number]
        if isinstance(action, m.Commit):
            return world.with_seat(number, seat._replace(orders=(*seat.orders, ("commit", NO_TASKS))))
        if isinstance(action, m.Join):
            client = seat.client if seat.client in ("sent", "answered") else "due"
            return world.with_seat(number, seat._replace(client=client))
        if isinstance(action, m.DropAll):
            telling = LATE if seat.telling else ""
            seat = seat._replace(orders=(("drop", NO_TASKS),), releasing=False, telling=telling)
            return world.with_seat(number, seat)
        return self.let_go(world, number) if isinstance(action, m.ReleaseMutex) else world

    def let_go(self, world: World, number: int) -> World:
        held = number in world.mutex.reporting
        world = world._replace(mutex=self.release(world.mutex, number))
        return world.with_seat(number, world.seats[number]._replace(again=self.has_doubts(held=held)))

    def release(self, mutex: MutexState, number: int) -> MutexState:
        return mutex.release(number)

    def has_doubts(self, *, held: bool) -> bool:
        return not held

    # --- its client: one JoinGroup after the other ----------------------------------

    def client_steps(self, world: World, number: int, seat: Seat) -> Next:
        if seat.client in ("idle", "left"):
            return
        if seat.closed:
            yield "leaves", world.with_seat(number, seat._replace(client="left", promised=NO_TASKS))
        yield f"sends JoinGroup ({seat.client})", self.report(world, number)  # the first, or once more
        if seat.client == "sent" and not seat.closed:
            yield "gets JoinGroup's answer", world.with_seat(number, seat._replace(client="answered"))
        if seat.client == "answered" and not seat.closed:
            yield "has its assignment refused by the client", world.with_seat(number, seat._replace(client="due"))
            for given in self.gifts(world, number):
                yield f"is given {''.join(sorted(given)) or 'nothing'}", self.assign(world, number, given)
        if self.plan.fatal and not seat.closed:
            yield "ends by an error", self.fail(world, number)

    def report(self, world: World, number: int) -> World:
        """``Membership.subscription``."""
        mutex = self.entered(world, number)
        held = mutex is not None
        promised = (world.offered if self.tells_dormant(held=held) else NO_TASKS) - self.owned(world)
        seat = world.seats[number]._replace(
            client="sent", promised=promised, under=held, excused=False, lacking=not held and bool(world.offered)
        )
        return self.reported(world._replace(mutex=mutex or world.mutex).with_seat(number, seat), number)

    def entered(self, world: World, number: int) -> MutexState | None:
        return None if world.seats[number].closed else world.mutex.report(number, FRESH_MS)

    def tells_dormant(self, *, held: bool) -> bool:
        return held

    def reported(self, world: World, _number: int) -> World:
        return world

    def owned(self, world: World) -> Tasks:
        return frozenset(task for task, _ in world.locks)

    def gifts(self, world: World, number: int) -> list[Tasks]:
        """None of the tasks or one: not one that another member here has, or is about to have."""
        free = [
            task for task in sorted("ab"[: max(1, len(world.on_disk | world.taken))]) if self.free(world, task, number)
        ]
        return [NO_TASKS, *(frozenset({task}) for task in free)]

    def free(self, world: World, task: str, number: int) -> bool:
        others = [seat for other, seat in enumerate(world.seats) if other != number]
        return world.owner(task) in (None, number) and not any(task in t for seat in others for _, t in seat.orders)

    def assign(self, world: World, number: int, given: Tasks) -> World:
        seat = world.seats[number]
        seat = seat._replace(client="idle", orders=(*seat.orders, ("adopt", given)))
        return self.tell(world.with_seat(number, seat), number, ASSIGNED)

    def fail(self, world: World, number: int) -> World:
        """An assignment with an error code, a topology that does not match, a client that gives up: ``run`` ends."""
        world = world.with_seat(number, world.seats[number]._replace(client="left", promised=NO_TASKS))
        return self.tell(world, number, CLOSE)

    # --- the loop and the restore thread: orders, and tasks that close -------------------

    def loop_steps(self, world: World, number: int, seat: Seat) -> Next:
        if seat.telling:  # between having released and saying so anything may come, but for the loop's own next step
            reported = world.with_seat(number, seat._replace(telling=""))
            yield f"tells of its {seat.telling} release", self.tell_released(reported, number, seat.telling)
            return
        if seat.orders:
            (order, tasks), rest = seat.orders[0], seat.orders[1:]
            world_then = world.with_seat(number, seat._replace(orders=rest))
            if order == "commit":
                yield "has committed", self.tell(world_then, number, COMMITTED)
            elif order == "adopt":
                yield "locks what it was given", self.adopt(world_then, number, tasks)
            else:
                yield "drops its tasks", self.drop(world_then, number)
        for task in sorted(seat.closing):
            if task not in world.offered:
                yield f"closes {task}", world._replace(offered=world.offered | {task})
            else:
                yield f"unlocks {task}", self.unlock(world, number, task)

    def adopt(self, world: World, number: int, given: Tasks) -> World:
        mine = frozenset(task for task, owner in world.locks if owner == number)
        seat = world.seats[number]
        deceived = bool(given & seat.promised - world.on_disk)
        closing = (seat.closing | mine) - given
        seat = seat._replace(
            promised=NO_TASKS, lacking=seat.lacking or deceived, closing=closing, releasing=bool(closing)
        )
        world = world._replace(
            locks=world.locks | {(task, number) for task in given},
            on_disk=world.on_disk | given,
            offered=world.offered - given,
        ).with_seat(number, seat)
        return world if closing or seat.closed else self.released(world, number)

    def released(self, world: World, number: int) -> World:
        return world.with_seat(number, world.seats[number]._replace(telling=NEWEST))

    def tell_released(self, world: World, number: int, telling: str) -> World:
        return self.tell(world, number, RELEASED if telling == NEWEST else RELEASED_BEFORE)

    def drop(self, world: World, number: int) -> World:
        mine = frozenset(task for task, owner in world.locks if owner == number)
        seat = world.seats[number]
        return world.with_seat(number, seat._replace(closing=seat.closing | mine, releasing=False))

    def unlock(self, world: World, number: int, task: str) -> World:
        seat = world.seats[number]
        seat = seat._replace(closing=seat.closing - {task})
        over = seat.releasing and not seat.closing
        world = world._replace(locks=world.locks - {(task, number)})
        world = world.with_seat(number, seat._replace(releasing=seat.releasing and not over))
        return self.released(world, number) if over else world

    # --- the cleaner -----------------------------------------------------------------------

    def cleaner_steps(self, world: World) -> Next:
        if world.cleaner == "out":
            if (mutex := self.cleaning(world.mutex)) is not None:
                yield "the cleaner begins", self.begin_clean(world, mutex)
            return
        if world.cleaner == "took":
            forgotten = world._replace(offered=self.forget(world), cleaner="in", taken=NO_TASKS)
            yield "the cleaner forgets the sum", forgotten
            return
        for task in sorted(world.on_disk):
            if self.may_go(world, task):
                deleted = frozenset({task})
                yield (
                    f"the cleaner takes {task}",
                    world._replace(on_disk=world.on_disk - deleted, cleaner="took", taken=deleted),
                )
        yield "the cleaner ends, or fails", world._replace(mutex=self.end_clean(world.mutex), cleaner="out")

    def cleaning(self, mutex: MutexState) -> MutexState | None:
        return mutex.clean(STALE_MS)

    def begin_clean(self, world: World, mutex: MutexState) -> World:
        """Begin to clean. An overdue holder learns it when it lets go (``again``); until then its promise is off."""
        off = world.mutex.reporting
        seats = tuple(s._replace(excused=s.excused or n in off) for n, s in enumerate(world.seats))
        return world._replace(mutex=mutex, cleaner="in", seats=seats)

    def may_go(self, world: World, task: str) -> bool:
        return world.owner(task) is None

    def forget(self, world: World) -> Tasks:
        return world.offered - world.taken

    def end_clean(self, mutex: MutexState) -> MutexState:
        return mutex.end_clean()
