"""KIP-441's race between assignment and state cleanup, enumerated: every order of every step, not a sample.

A little world with two members, one cleaner and one task is walked through all the states it can reach. A member that
reported the task may be given it, and must then find its folder.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from kstreams_assign.state.mutex import MutexState, ReportMutex

MEMBERS = ("m1", "m2")
NOBODY = MutexState()


@dataclass(frozen=True)
class Member:
    phase: str = "idle"  # idle -> joined -> adopted -> idle
    promised: bool = False


@dataclass(frozen=True)
class World:
    mutex: MutexState = NOBODY
    members: tuple[Member, Member] = (Member(), Member())
    owner: str | None = None
    on_disk: bool = True
    cleaner: str = "idle"  # idle -> cleaning -> idle

    def with_member(self, name: str, member: Member) -> World:
        members = list(self.members)
        members[MEMBERS.index(name)] = member
        return replace(self, members=tuple(members))


class Rules:
    """Every step that may come next, as the members and the cleaner of this package take it."""

    def next_worlds(self, world: World) -> Iterator[tuple[str, World]]:
        for name, member in zip(MEMBERS, world.members, strict=True):
            yield from self.member_steps(world, name, member)
        yield from self.cleaner_steps(world)

    def member_steps(self, world: World, name: str, member: Member) -> Iterator[tuple[str, World]]:
        if member.phase in {"idle", "joined"}:  # "joined": a JoinGroup that failed is sent once more
            yield f"{name} joins", self.join(world, name)
        if member.phase == "joined":
            yield f"{name} gives up", self.leave(world, name)
            if world.owner is None and (member.promised or not world.on_disk):
                yield f"{name} is given the task and locks it", self.adopt(world, name)
            yield f"{name} is given nothing", world.with_member(name, replace(member, phase="adopted", promised=False))
        if member.phase == "adopted":
            yield f"{name} lets go", self.leave(world, name)
        if world.owner == name and member.phase == "idle":
            yield f"{name} closes the task", replace(world, owner=None)

    def join(self, world: World, name: str) -> World:
        mutex = world.mutex.report(name)
        promised = world.on_disk and mutex is not None and world.owner in {None, name}
        return replace(world, mutex=mutex or world.mutex).with_member(name, Member("joined", promised))

    def adopt(self, world: World, name: str) -> World:
        return replace(world, owner=name, on_disk=True).with_member(name, Member("adopted"))

    def leave(self, world: World, name: str) -> World:
        return replace(world, mutex=world.mutex.release(name)).with_member(name, Member())

    def cleaner_steps(self, world: World) -> Iterator[tuple[str, World]]:
        if world.cleaner == "idle":
            mutex = world.mutex.clean()
            if mutex is not None:
                yield "the cleaner begins", replace(world, mutex=mutex, cleaner="cleaning")
            return
        if world.owner is None and world.on_disk:
            yield "the cleaner takes the folder", replace(world, on_disk=False)
        yield "the cleaner ends", replace(world, mutex=world.mutex.end_clean(), cleaner="idle")


class NoMutex(Rules):
    """The cleaner does not ask."""

    def cleaner_steps(self, world: World) -> Iterator[tuple[str, World]]:
        if world.owner is None and world.on_disk:
            yield "the cleaner takes the folder", replace(world, on_disk=False)


class HeldForTheCallOnly(Rules):
    """The mutex is let go as soon as the report is made, as a lock around the call would be."""

    def join(self, world: World, name: str) -> World:
        joined = super().join(world, name)
        return replace(joined, mutex=joined.mutex.release(name))


class LeftByTheFirst(Rules):
    """One flag for the process: the first member that is through lets the cleaner in on the second."""

    def leave(self, world: World, name: str) -> World:
        return replace(super().leave(world, name), mutex=NOBODY)


def walk(rules: Rules) -> dict[World, list[World]]:
    """Every world that can be reached, with those that can follow it."""
    found: dict[World, list[World]] = {}
    waiting = [World()]
    while waiting:
        world = waiting.pop()
        if world not in found:
            found[world] = [following for _, following in rules.next_worlds(world)]
            waiting += found[world]
    return found


def broken_promise(world: World) -> bool:
    return any(member.phase == "joined" and member.promised and not world.on_disk for member in world.members)


def test_no_order_of_steps_takes_a_folder_that_a_member_has_reported():
    worlds = walk(Rules())
    assert len(worlds) > 50
    assert not any(broken_promise(world) for world in worlds)
    assert not any(world.mutex.cleaning and world.mutex.reporting for world in worlds)


@pytest.mark.parametrize(
    "rules", [NoMutex(), HeldForTheCallOnly(), LeftByTheFirst()], ids=lambda rules: type(rules).__name__
)
def test_the_same_walk_finds_the_race_where_the_mutex_is_used_wrongly(rules):
    assert any(broken_promise(world) for world in walk(rules))


def test_from_every_state_the_cleaner_can_get_its_turn_and_every_member_can_report():
    worlds = walk(Rules())
    for goal in (
        lambda world: world.mutex.cleaning,
        lambda world: {"m1"} <= world.mutex.reporting,
        lambda world: {"m1", "m2"} <= world.mutex.reporting,
    ):
        reaching = {world for world in worlds if goal(world)}
        assert reaching
        while more := {w for w in worlds.keys() - reaching if not reaching.isdisjoint(worlds[w])}:
            reaching |= more
        assert reaching == worlds.keys()


def test_several_members_report_at_once_and_each_lets_go_for_itself():
    mutex = ReportMutex()
    assert mutex.try_report("m1")
    assert mutex.try_report("m2")
    mutex.release_report("m1")
    assert not mutex.try_clean()
    mutex.release_report("m2")
    assert mutex.try_clean()


def test_a_member_that_joins_again_holds_it_once():
    mutex = ReportMutex()
    assert mutex.try_report("m1")
    assert mutex.try_report("m1")
    mutex.release_report("m1")
    mutex.release_report("m1")
    assert mutex.try_clean()


def test_while_the_cleaner_runs_a_report_and_a_second_cleaner_are_refused_and_a_release_changes_nothing():
    mutex = ReportMutex()
    assert mutex.try_clean()
    assert not mutex.try_report("m1")
    assert not mutex.try_clean()
    mutex.release_report("m1")
    assert not mutex.try_report("m1")
    mutex.end_clean()
    assert mutex.try_report("m1")


def test_threads_never_meet_a_cleaner_inside():
    """The lock around the decisions, with real threads: everyone notes who is inside while being inside."""
    mutex, inside, clashes = ReportMutex(), [], []

    def report(name: str) -> None:
        for _ in range(2_000):
            if mutex.try_report(name):
                inside.append(name)
                clashes.extend(["cleaner"] if "cleaner" in inside else [])
                inside.remove(name)
                mutex.release_report(name)

    def clean() -> None:
        for _ in range(2_000):
            if mutex.try_clean():
                inside.append("cleaner")
                clashes.extend(name for name in list(inside) if name != "cleaner")
                inside.remove("cleaner")
                mutex.end_clean()

    threads = [threading.Thread(target=report, args=(name,)) for name in MEMBERS] + [threading.Thread(target=clean)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (clashes, inside, mutex.state) == ([], [], NOBODY)
