"""Members of a streams group at random: lost requests and answers, a coordinator that moves, joins, kills, stalls.

A killed process may come back under its member id, and a member may lose its membership by a refused commit.

What must hold: no task is active at two members whose sessions are alive, and at the end each task is active at one.
"""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.engine import streams_events as events
from kstreams_assign.engine import streams_membership as engine
from kstreams_assign.engine.streams_events import NO_TASKS, StreamsTasks
from kstreams_assign.engine.streams_membership import StreamsMembership
from kstreams_assign.group.member import DropAll, MembershipLost, TasksReleased
from kstreams_assign.model import TaskId
from kstreams_assign.wire import StreamsHeartbeatRequest
from kstreams_assign.wire.streams_heartbeat import StreamsTopology
from tests.engine.streams_coordinator import Coordinator, Member
from tests.samples import sample

TASKS = [TaskId(sub, partition) for sub in range(2) for partition in range(4)]
SESSION_MS = 6_000
STEP_MS = 100
LATE_MS = 20_000


class Process:
    """A shell that holds tasks: new ones from the order on, old ones until they are released, which takes time."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        profile = engine.Profile("group", name, f"process-{name}", StreamsTopology(0, ()), 60_000)
        self.machine = StreamsMembership(profile)
        self.held = NO_TASKS
        self.adopting: tuple[int, StreamsTasks, int] | None = None
        self.dropped_ms: int | None = None
        self.call_ends_ms: int | None = None
        self.handle(events.TasksAwaited(frozenset(world.rng.sample(TASKS, 2))))
        self.handle(events.Started())

    def handle(self, event: events.Event) -> None:
        for effect in self.machine.handle(event, self.world.now_ms):
            self.carry_out(effect)

    def carry_out(self, effect: events.Effect) -> None:  # noqa: C901, PLR0912  # a case for each effect
        world = self.world
        match effect:
            case events.SendHeartbeat(request):
                if world.fails(0.1):
                    if request.active_tasks is None:  # one with tasks would release what was taken since
                        world.late.append((world.now_ms + world.rng.randint(STEP_MS, LATE_MS), request))
                    self.handle(events.Unanswered())
                    return
                reply = world.coordinator.heartbeat(request, world.now_ms)
                world.check()
                self.handle(events.Unanswered() if world.fails(0.1) else events.Answered(reply))
            case events.SendLeave(request):
                if not world.fails(0.1):
                    reply = world.coordinator.heartbeat(request, world.now_ms)
                    if not world.fails(0.1):
                        self.handle(events.LeaveAnswered(reply.error_code))
            case events.LookUpAssignment():
                member = world.coordinator.members.get(self.name)
                if world.fails(0.1):
                    self.handle(events.LookupFailed())
                elif member is None:
                    self.handle(events.AssignmentFound(0, None))
                else:
                    self.handle(events.AssignmentFound(member.epoch, member.assigned))
            case events.AdoptTasks(number, _, tasks):
                assert self.adopting is None, "one assignment after the other"
                self.held = self.held.with_those_of(tasks)
                self.adopting = number, tasks, world.now_ms + world.rng.choice((0, 100, 500, 3_000))
            case DropAll():
                assert self.dropped_ms is None, "tasks are dropped once"
                self.adopting = None
                self.dropped_ms = world.now_ms + world.rng.choice((0, 100, 500, 3_000))
            case events.AnnounceStatus() | events.AwaitingEnded():
                pass
            case _:
                raise AssertionError(effect)

    def turn(self) -> None:
        now_ms = self.world.now_ms
        if self.call_ends_ms is not None and now_ms >= self.call_ends_ms:
            self.call_ends_ms = None
            self.handle(events.CallReturned())
        if self.dropped_ms is not None and now_ms >= self.dropped_ms:
            self.held, self.dropped_ms = NO_TASKS, None
            self.handle(events.TasksDropped())
        if self.adopting is not None and now_ms >= self.adopting[2]:
            number, self.held, _ = self.adopting
            self.adopting = None
            self.handle(TasksReleased(number))
        due_ms = self.machine.due_ms()
        if due_ms is not None and now_ms >= due_ms:
            self.handle(events.HeartbeatDue())


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.calm = False
        self.coordinator = Coordinator(TASKS, self.rng.choice((0, 1)), self.rng)
        self.processes: dict[str, Process] = {}
        self.born = 0
        self.late: list[tuple[int, StreamsHeartbeatRequest]] = []
        """Heartbeats that were given up, and when they arrive all the same."""

    def fails(self, chance: float) -> bool:
        return not self.calm and self.rng.random() < chance

    def step(self) -> None:
        self.now_ms += STEP_MS
        for arrives_ms, request in list(self.late):
            if self.now_ms >= arrives_ms:
                self.late.remove((arrives_ms, request))
                self.coordinator.heartbeat(request, self.now_ms)
        for name, member in list(self.coordinator.members.items()):
            if self.now_ms - member.seen_ms > SESSION_MS:
                self.coordinator.remove(name)
        for process in self.rng.sample(list(self.processes.values()), len(self.processes)):
            process.turn()
            self.check()

    def disturb(self) -> None:
        self.coordinator.moved = self.fails(0.1)
        names = sorted(self.processes)
        what = self.rng.random()
        if what < 0.04 and len(names) < 4:
            self.born += 1
            self.processes[f"m{self.born}"] = Process(self, f"m{self.born}")
        elif what < 0.05 and names:
            self.processes.pop(self.rng.choice(names))
        elif what < 0.06 and names:
            self.close(self.rng.choice(names))
        elif what < 0.07 and names:
            process = self.processes[self.rng.choice(names)]
            process.call_ends_ms = self.now_ms + 2_000
            process.handle(events.CallStalled())
        elif what < 0.08 and names:
            name = self.rng.choice(names)
            self.processes[name] = Process(self, name)  # killed, and back at once
        elif what < 0.09 and names:
            self.processes[self.rng.choice(names)].handle(MembershipLost("a commit was refused"))
        elif what < 0.12:
            self.coordinator.rebalance()

    def close(self, name: str) -> None:
        process = self.processes.pop(name)
        process.handle(events.CloseAsked())
        process.held = NO_TASKS
        if (request := process.machine.leaving_request()) is not None:
            self.coordinator.heartbeat(request, self.now_ms)

    def known(self, process: Process) -> Member | None:
        return self.coordinator.members.get(process.name)

    def check(self) -> None:
        """A member that the coordinator removed may run on until it learns so: commits are fenced by its epoch."""
        running: dict[TaskId, str] = {}
        for process in self.processes.values():
            if self.known(process) is None or process.machine.epoch == 0:
                continue
            for task in process.held.active:
                assert task not in running, f"{task} is active at {running[task]} and {process.name}"
                running[task] = process.name

    def settle(self) -> None:
        self.calm, self.coordinator.moved = True, False
        if not self.processes:
            self.processes["last"] = Process(self, "last")
        for _ in range(3_000):
            self.step()
            if self.rests and not self.late:
                break
        assert self.rests, "the group does not come to rest"
        active = [task for process in self.processes.values() for task in process.machine.owned.active]
        assert sorted(active) == TASKS

    @property
    def rests(self) -> bool:
        return (
            self.coordinator.members.keys() == self.processes.keys()
            and self.coordinator.is_stable
            and all(
                process.adopting is None
                and process.held == process.machine.owned == self.coordinator.members[name].assigned
                for name, process in self.processes.items()
            )
        )


@pytest.mark.parametrize("seed", sample(range(400), 30))
def test_no_task_is_active_twice_and_all_are_at_the_end(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.step()
        world.disturb()
    world.settle()
