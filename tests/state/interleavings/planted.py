"""The same steps with one mistake each, of the kind that one makes: the search must find every one of them.

``PLANTED``: the mistake, and the sentence of ``world`` that it comes out as.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.group import member as m
from kstreams_assign.state.mutex import MutexState
from tests.state.interleavings.steps import FRESH_MS, NEWEST, STALE_MS, Next, Rules
from tests.state.interleavings.world import NO_TASKS, STARVED, WAITS, Seat, Tasks, World


class ReleasedWhenLost(Rules):
    """Membership is lost after the client has reported again, so that this report has no mutex."""

    def actions(self, event: m.Event, actions: Sequence[m.Action]) -> Sequence[m.Action]:
        return [*actions, m.ReleaseMutex()] if isinstance(event, m.MembershipLost) else actions


class NotReleasedWhenClosed(Rules):
    """A member closes in the midst of a join."""

    def actions(self, event: m.Event, actions: Sequence[m.Action]) -> Sequence[m.Action]:
        closed = isinstance(event, m.CloseAsked)
        return [action for action in actions if not (closed and isinstance(action, m.ReleaseMutex))]


class NotReleasedWhenAdopted(Rules):
    """The tasks are locked, and the mutex is forgotten."""

    def actions(self, event: m.Event, actions: Sequence[m.Action]) -> Sequence[m.Action]:
        adopted = isinstance(event, m.TasksReleased)
        return [action for action in actions if not (adopted and isinstance(action, m.ReleaseMutex))]


class LateReleaseCounts(Rules):
    """Between the release and its report the member was fenced, joined again, and got another assignment."""

    def tell_released(self, world: World, number: int, _telling: str) -> World:
        return super().tell_released(world, number, NEWEST)


class NotReleasedAfterAnError(Rules):
    """The thread that joins ends by an error, and the member is not closed."""

    def fail(self, world: World, number: int) -> World:
        return world.with_seat(number, world.seats[number]._replace(client="left", promised=NO_TASKS, orders=()))


class TakenByAClosedMember(Rules):
    """The client tries once more after the member is closed."""

    def entered(self, world: World, number: int) -> MutexState | None:
        return world.mutex.report(number, FRESH_MS)


class ReleasedWithTheAssignment(Rules):
    """KIP-441's listener comes too early here: the folders are not locked yet."""

    def assign(self, world: World, number: int, given: Tasks) -> World:
        after = super().assign(world, number, given)
        return after._replace(mutex=after.mutex.release(number))


class HeldForTheCallOnly(Rules):
    """As a lock around the making of the report would be."""

    def reported(self, world: World, number: int) -> World:
        return world._replace(mutex=world.mutex.release(number))


class LeftByTheFirst(Rules):
    """One flag for the process: the first member that is through lets the cleaner in on the second."""

    def release(self, mutex: MutexState, _number: int) -> MutexState:
        return MutexState(cleaning=mutex.cleaning)


class CleanedUnderTheReport(Rules):
    """The cleaner asks whether another cleaner runs, and nothing else."""

    def cleaning(self, mutex: MutexState) -> MutexState | None:
        return None if mutex.cleaning else MutexState(mutex.held, cleaning=True)


class RenamedAfterwards(Rules):
    """The cleaner makes its list under the mutex and renames when it has let go."""

    def cleaner_steps(self, world: World) -> Next:
        if world.cleaner == "out" and world.taken:
            for task in sorted(world.taken & world.on_disk):
                if world.owner(task) is None:
                    deleted = frozenset({task})
                    yield (
                        "the cleaner renames late",
                        world._replace(
                            on_disk=world.on_disk - deleted,
                            offered=world.offered - deleted,
                            taken=world.taken - deleted,
                        ),
                    )
            yield "the cleaner has renamed", world._replace(taken=NO_TASKS)
        elif world.cleaner == "in":
            idle = frozenset(task for task in world.on_disk if world.owner(task) is None)
            yield "the cleaner lets go", world._replace(mutex=world.mutex.end_clean(), cleaner="out", taken=idle)
        else:
            yield from super().cleaner_steps(world)


class DormantWithoutTheMutex(Rules):
    """The cleaner runs, and everything is reported all the same."""

    def tells_dormant(self, *, held: bool) -> bool:  # noqa: ARG002  # that is the mistake
        return True


class OwnedNotLookedAt(Rules):
    """The cleaner removes a folder in use."""

    def may_go(self, _world: World, _task: str) -> bool:
        return True


class SumNotForgotten(Rules):
    """The folder goes and its offset sum stays in the table."""

    def forget(self, world: World) -> Tasks:
        return world.offered


class NotEndedWhenItFails(Rules):
    """A run that fails never ends."""

    def end_clean(self, mutex: MutexState) -> MutexState:
        return mutex


class NoBound(Rules):
    """A hold is never overdue."""

    def cleaning(self, mutex: MutexState) -> MutexState | None:
        return mutex.clean(STALE_MS - 1)


class OverdueUnnoticed(Rules):
    """A hold that was overdue ends, and its member takes its report for kept."""

    def has_doubts(self, *, held: bool) -> bool:  # noqa: ARG002  # that is the mistake
        return False


class WaitsForTheCleaner(Rules):
    """A report is not made while the cleaner runs, so the join does not leave and heartbeats wait."""

    def client_steps(self, world: World, number: int, seat: Seat) -> Next:
        return iter(()) if world.mutex.cleaning else super().client_steps(world, number, seat)


DELETED = "a folder that a member has reported and may still be assigned is deleted"
HELD = "no join is under way and the mutex is held"
INSIDE = "the cleaner and a report are inside at once"
UNCORRECTED = "the leader has a wrong report and will not get another"
ASTRAY = "the mutex says that the cleaner runs and it does not, or the other way round"

PLANTED: dict[type[Rules], str] = {
    ReleasedWhenLost: DELETED,
    NotReleasedWhenClosed: "a closed member holds the mutex",
    NotReleasedWhenAdopted: HELD,
    LateReleaseCounts: DELETED,
    NotReleasedAfterAnError: "its thread has ended and the member holds the mutex",
    TakenByAClosedMember: "a closed member holds the mutex",
    ReleasedWithTheAssignment: DELETED,
    HeldForTheCallOnly: DELETED,
    LeftByTheFirst: DELETED,
    CleanedUnderTheReport: INSIDE,
    RenamedAfterwards: DELETED,
    DormantWithoutTheMutex: "dormant state was promised without the mutex",
    OwnedNotLookedAt: "a folder that a member has locked is deleted",
    SumNotForgotten: DELETED,
    NotEndedWhenItFails: ASTRAY,
    NoBound: STARVED,
    OverdueUnnoticed: UNCORRECTED,
    WaitsForTheCleaner: WAITS,
}
