"""Each row of a table is carried out: machines make every effect, shells know every effect and event.

A type checker proves that a shell has a case for each effect. It does not see an effect that no machine makes, an event
that is never reported, or a case that only raises. The simulator's Java members (``sim.java``) have the same machines
and shells, so they have no rows of their own.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

import kstreams_assign
from kstreams_assign.engine import (
    commits,
    early,
    effects,
    global_tables,
    membership,
    restore_effects,
    restore_events,
    restoring,
    streams_events,
    streams_membership,
    task_events,
    tasks,
    warm_join,
    warm_leave,
    warm_takeover,
)
from kstreams_assign.tasks import lifecycle
from kstreams_assign.tasks.commit import AT_LEAST_ONCE, EXACTLY_ONCE, CommitEnd, CommitStep, Outcome

PACKAGE = Path(str(kstreams_assign.__file__)).parent


class Played(NamedTuple):
    """A machine: its effects and events, where it makes effects, and its two shells."""

    machine: type[Any]
    effects: Any
    events: Any
    made_in: tuple[str, ...]
    worker: str
    simulator: str | None
    """None: the simulator plays neither warm joins nor global tables."""
    not_simulated: frozenset[str]
    """Effects that cannot come in the simulator; its shell says why."""


MACHINES = (
    Played(
        tasks.Tasks,
        effects.Effect,
        task_events.Event,
        ("engine/tasks.py", "engine/tasks_in_hand.py"),
        "worker/processing.py",
        "sim/loop.py",
        frozenset(),
    ),
    Played(
        commits.Commits,
        commits.Effect,
        commits.Event,
        ("engine/commits.py",),
        "worker/committing.py",
        "sim/committing.py",
        frozenset({"LeaveClient"}),
    ),
    Played(
        restoring.Restores,
        restore_effects.Effect,
        restore_events.Event,
        ("engine/restoring.py",),
        "worker/restoring.py",
        "sim/restoring.py",
        frozenset({"AnnounceWiped"}),
    ),
    Played(
        membership.Membership,
        membership.Effect,
        membership.Event,
        ("engine/membership.py", "group/member.py"),
        "worker/membership.py",
        "sim/membership.py",
        frozenset({"AnnounceShutdownRefused", "EndMembership"}),
    ),
    Played(
        streams_membership.StreamsMembership,
        streams_events.Effect,
        streams_events.Event,
        ("engine/streams_membership.py", "engine/streams_awaited.py"),
        "worker/streams_member.py",
        "sim/streams_membership.py",
        frozenset(),
    ),
    Played(
        warm_join.WarmJoin,
        warm_join.Effect,
        warm_join.Event,
        ("engine/warm_join.py",),
        "worker/warm_joining.py",
        None,
        frozenset(),
    ),
    Played(
        warm_leave.WarmLeave,
        warm_leave.Effect,
        warm_leave.Event,
        ("engine/warm_leave.py",),
        "worker/warm_leaving.py",
        None,
        frozenset(),
    ),
    Played(
        warm_takeover.WarmTakeover,
        warm_takeover.Effect,
        warm_takeover.Event,
        ("engine/warm_takeover.py",),
        "worker/warm_leaving.py",
        None,
        frozenset(),
    ),
    Played(
        early.Early,
        early.Effect,
        early.Event,
        ("engine/early.py",),
        "worker/early.py",
        "sim/early.py",
        frozenset(),
    ),
    Played(
        global_tables.GlobalTables,
        global_tables.Effect,
        global_tables.Event,
        ("engine/global_tables.py",),
        "worker/global_thread.py",
        None,
        frozenset(),
    ),
)
machines = pytest.mark.parametrize("played", MACHINES, ids=lambda played: played.machine.__name__)

simulated = pytest.mark.parametrize(
    "played", [played for played in MACHINES if played.simulator], ids=lambda played: played.machine.__name__
)

ERROR = AssertionError.__name__

NOT_REPORTED_BY_THE_SIMULATOR = {
    "InputsLost",  # input is never deleted
    "DiscardFailed",  # a folder can always be thrown away
    "Published",  # no answer comes to a report there, so each turn publishes
    "CallUnderWay",  # each call returns
    "ShutdownAsked",  # no member asks all to end
    "TasksAwaited",  # a process joins a streams group cold
    "CallStalled",  # a call of a function takes no longer than a commit waits
    "CallReturned",
}


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((PACKAGE / path).read_text(encoding="utf-8"))


def names(kinds: Any) -> set[str]:
    """The classes of a union, by name."""
    return {kind.__name__ for each in get_args(kinds) or (kinds,) for kind in (get_args(each) or (each,))}


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def called(*paths: str) -> set[str]:
    """What is called or passed as a class in these modules."""
    calls = (node for path in paths for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
    return {last_name(part) for call in calls for part in (call.func, *call.args)}


def cases(path: str) -> tuple[set[str], set[str]]:
    """The classes that a module has cases for: those that it carries out, and those that it says cannot come."""
    done: set[str] = set()
    raising: set[str] = set()
    for case in (node for node in ast.walk(tree(path)) if isinstance(node, ast.match_case)):
        kinds = {last_name(part.cls) for part in ast.walk(case.pattern) if isinstance(part, ast.MatchClass)}
        (raising if cannot_come(case.body[0]) else done).update(kinds)
    return done, raising


def cannot_come(first: ast.stmt) -> bool:
    return isinstance(first, ast.Raise) and isinstance(first.exc, ast.Call) and last_name(first.exc.func) == ERROR


def modules_of(room: str) -> list[str]:
    return [str(path.relative_to(PACKAGE)) for path in (PACKAGE / room).rglob("*.py")]


@machines
def test_a_machine_makes_each_of_its_effects(played):
    assert names(played.effects) - called(*played.made_in) == set()


@machines
def test_the_worker_carries_out_each_effect(played):
    done, raising = cases(played.worker)
    assert names(played.effects) - done == set()
    assert raising == set()


@simulated
def test_the_simulator_carries_out_each_effect_that_can_come_there(played):
    done, raising = cases(played.simulator)
    assert names(played.effects) - done == raising & names(played.effects) == played.not_simulated


@machines
def test_a_machine_reacts_to_each_event(played):
    assert names(played.events) == {kind.__name__ for kind in played.machine._REACTIONS} | inherited(played)


def inherited(played: Played) -> set[str]:
    """The member's events, which the membership passes on; and what begins another generation of early probing."""
    begins = {"Assigned"} if played.machine is early.Early else set()
    return names(membership.member.Event) if played.machine is membership.Membership else begins


@machines
def test_each_event_is_reported_by_the_worker(played):
    passed_on = called(*played.made_in, *modules_of("engine"), *modules_of("restore"))  # by another machine
    assert names(played.events) - called(*modules_of("worker")) - passed_on == set()


@simulated
def test_each_event_is_reported_by_the_simulator(played):
    passed_on = called(*played.made_in, *modules_of("engine"), *modules_of("restore"))  # by another machine
    missing = names(played.events) - called(*modules_of("sim")) - passed_on
    assert missing == names(played.events) & NOT_REPORTED_BY_THE_SIMULATOR


# --- the pure tables --------------------------------------------------------------------


def test_each_step_of_a_task_is_in_the_table_and_its_machine_takes_it():
    steps = {step for _, taken in lifecycle.TRANSITIONS.values() for step in taken}
    assert steps == set(lifecycle.Step)
    taken = {
        last_name(part.value)
        for case in ast.walk(tree("engine/tasks_in_hand.py"))
        if isinstance(case, ast.match_case)
        for part in ast.walk(case.pattern)
        if isinstance(part, ast.MatchValue)
    }
    assert taken >= {step.name for step in lifecycle.Step}


def test_a_commit_takes_each_step_and_comes_to_each_end():
    for table in (AT_LEAST_ONCE, EXACTLY_ONCE):
        reached = {CommitStep.LEASE, *table.values()}
        assert {step for step, _ in table} == {step for step in reached if isinstance(step, CommitStep)}
        assert all((step, Outcome.OK) in table for step in reached if isinstance(step, CommitStep))
    reached = {CommitStep.LEASE, *AT_LEAST_ONCE.values(), *EXACTLY_ONCE.values()}
    assert reached == {*CommitStep, *CommitEnd}


@pytest.mark.parametrize("path", ["worker/committing.py", "sim/committing.py"])
def test_both_shells_take_each_step_of_a_commit(path):
    patterns = (case.pattern for case in ast.walk(tree(path)) if isinstance(case, ast.match_case))
    steps = {part.value.attr for pattern in patterns for part in ast.walk(pattern) if is_step(part)}
    assert steps == {step.name for step in CommitStep}


def is_step(node: ast.AST) -> bool:
    if not isinstance(node, ast.MatchValue) or not isinstance(node.value, ast.Attribute):
        return False
    return last_name(node.value.value) == "CommitStep"


def test_the_machines_are_all_here():
    in_room = {path.stem for path in (PACKAGE / "engine").glob("*.py")}
    walked = {played.machine.__module__.rpartition(".")[2] for played in MACHINES}
    parts = {"tasks_in_hand", "stops", "own_loads", "warm_disk", "joiners"}
    parts |= {"streams_awaited", "streams_errors", "streams_offsets"}
    values = {"effects", "task_events", "restore_effects", "restore_events", "streams_events"}
    assert in_room == walked | parts | values | {"__init__"}
