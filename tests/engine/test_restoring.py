"""Who has a task's stores, what it waits for and why it stops, without threads, brokers or stores."""

from __future__ import annotations

import pytest

from kstreams_assign.engine import restore_effects as do
from kstreams_assign.engine.restore_events import (
    Close,
    Discarded,
    DiscardFailed,
    Event,
    Opened,
    OpenFailed,
    PositionsFailed,
    PositionsFound,
    Repair,
    Restore,
    Restored,
    StoresFailed,
    Tail,
    Woke,
)
from kstreams_assign.engine.restoring import MISSING_RETRY_MS, Place, Restores, TaskEntry
from kstreams_assign.engine.stops import Stop
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Missing, Progress, Purpose, StartedOver
from kstreams_assign.restore.progress import TaskProgress

SHAPE = TopologyShape(
    (
        SubtopologyShape(("in",), (Store("totals"),)),
        SubtopologyShape(("plain",)),
        SubtopologyShape(("lean",), (Store("cache", logged=False),)),
    )
)
TASK, OTHER, STATELESS, UNLOGGED = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(2, 0)
INPUTS, GROWN = (TopicPartition("in", 0),), (TopicPartition("in", 0), TopicPartition("in", 1))
CHANGELOG = TopicPartition("app-totals-changelog", 0)
STORE_OF = {CHANGELOG: "totals"}
OLD, NEW = {CHANGELOG: 5}, {CHANGELOG: 9}
ACTIVE, STANDBY = Purpose.ACTIVE, Purpose.STANDBY
FULL, SPOILT = StateError("no space left"), StoreDamaged("spoilt")
PAUSE_MS = 100


class Machine:
    """The engine, with a clock that the test sets."""

    def __init__(self) -> None:
        self.restores = Restores(SHAPE, "app", PAUSE_MS)
        self.now_ms = 10_000

    def handle(self, *events: Event) -> list[do.Effect]:
        """Return the effects of all events."""
        return [effect for event in events for effect in self.restores.handle(event, self.now_ms)]

    def entry(self, task: TaskId = TASK) -> TaskEntry:
        return self.restores.entries()[task]


def closed(_machine: Machine) -> None:
    """Nothing is known of the task."""


def restoring(machine: Machine) -> None:
    machine.handle(Restore(TASK, INPUTS), Opened(TASK, OLD))


def tailing(machine: Machine) -> None:
    machine.handle(Tail(TASK), Opened(TASK, OLD))


def restored(machine: Machine) -> None:
    restoring(machine)
    machine.handle(Restored(TASK, NEW))


def handed_out(machine: Machine) -> None:
    restored(machine)
    machine.handle(PositionsFound(TASK, 1))


def stopped(machine: Machine) -> None:
    machine.handle(Tail(TASK), OpenFailed(TASK, FULL))


def being_tried(machine: Machine) -> None:
    """The changelog of a replica is looked for all the time."""
    tailing(machine)
    machine.handle(Missing(TASK, (CHANGELOG,)))


def progress(at: int, end: int) -> TaskProgress:
    return TaskProgress.begin({CHANGELOG: at}, {CHANGELOG: end}, 0)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def kinds(effects: list[do.Effect]) -> list[type]:
    return [type(effect) for effect in effects]


# --- each order against each place that the stores may be in -----------------------------------

CLOSED = do.ReportClosed(TASK, 7)
LET_GO = [do.ReportDormant(TASK), do.CloseStores(TASK), CLOSED]

WITHOUT_STORES = [
    # place, what else a Restore does than to look up positions, what a Tail does, what a Close does
    (closed, [do.OpenStores(TASK)], [do.OpenStores(TASK)], [CLOSED]),
    (restoring, [do.Repurpose(TASK, ACTIVE)], [do.Repurpose(TASK, STANDBY)], [do.TakeFromRestorer(TASK), *LET_GO]),
    (tailing, [do.Repurpose(TASK, ACTIVE)], [do.Repurpose(TASK, STANDBY)], [do.TakeFromRestorer(TASK), *LET_GO]),
    (restored, [], [do.ReportOffsets(TASK, NEW), do.ReadChangelogs(TASK, STORE_OF, STANDBY)], LET_GO),
    (handed_out, [], [], []),
    (stopped, [], [], [CLOSED]),
    (being_tried, [do.Repurpose(TASK, ACTIVE)], [do.Repurpose(TASK, STANDBY)], [do.TakeFromRestorer(TASK), *LET_GO]),
]


@pytest.mark.parametrize(("place", "restore", "tail", "close"), WITHOUT_STORES)
def test_an_order_without_stores_is_about_those_that_are_here(machine: Machine, place, restore, tail, close) -> None:
    for event, expected in ((Restore(TASK, INPUTS), restore), (Tail(TASK), tail), (Close(TASK, 7, False), close)):
        machine = Machine()
        place(machine)
        effects = machine.handle(event)
        if isinstance(event, Restore):
            assert kinds(effects[:1]) == [do.LookUpPositions]
            effects = effects[1:]
        assert effects == expected, event


LATEST = {CHANGELOG: 12}


def test_stores_that_come_with_an_order_are_used(machine: Machine) -> None:
    """They are restored further: another process may have written changelogs since."""
    handed_out(machine)
    assert machine.handle(Restore(TASK, INPUTS, LATEST)) == [
        do.LookUpPositions(TASK, 2, INPUTS),
        do.ReportOffsets(TASK, LATEST),
        do.ReadChangelogs(TASK, STORE_OF, ACTIVE),
    ]
    machine = Machine()
    handed_out(machine)
    expected = [do.ReportOffsets(TASK, LATEST), do.ReadChangelogs(TASK, STORE_OF, STANDBY)]
    assert machine.handle(Tail(TASK, LATEST)) == expected
    machine = Machine()
    handed_out(machine)
    assert machine.handle(Close(TASK, 7, brought=True)) == LET_GO


@pytest.mark.parametrize("order", [Restore(TASK, GROWN), Tail(TASK), Close(TASK, 3, brought=False)])
def test_stores_on_their_way_to_the_loop_come_back_with_another_order(machine: Machine, order: Event) -> None:
    handed_out(machine)
    machine.handle(order)
    assert machine.entry().place is Place.HANDED_OUT
    assert machine.handle(Close(TASK, 7, brought=True)) == LET_GO
    assert machine.restores.entries() == {}


def test_an_order_is_forgotten_with_its_task(machine: Machine) -> None:
    handed_out(machine)
    machine.handle(Close(TASK, 7, brought=True))
    assert machine.handle(Restore(TASK, INPUTS)) == [do.LookUpPositions(TASK, 2, INPUTS), do.OpenStores(TASK)]


# --- handing out ------------------------------------------------------------------------------


@pytest.mark.parametrize("positions_first", [True, False])
def test_a_task_is_handed_out_once_state_and_positions_are_there(machine: Machine, positions_first: bool) -> None:
    restoring(machine)
    events: list[Event] = [PositionsFound(TASK, 1), Restored(TASK, NEW)]
    first, last = events if positions_first else events[::-1]
    assert machine.handle(first) == []
    assert machine.handle(last) == [do.CountOffsets(TASK, ACTIVE, 4), do.HandOut(TASK, 4)]
    assert (machine.entry().place, machine.restores.running) == (Place.HANDED_OUT, True)


def test_a_stateless_task_waits_for_its_positions_alone(machine: Machine) -> None:
    assert machine.handle(Restore(STATELESS, INPUTS)) == [do.LookUpPositions(STATELESS, 1, INPUTS)]
    assert machine.restores.lags() == {STATELESS: 0}
    assert machine.handle(PositionsFound(STATELESS, 1)) == [do.HandOut(STATELESS, 0)]
    assert machine.handle(Restore(STATELESS, GROWN)) == [do.LookUpPositions(STATELESS, 2, GROWN)], "nothing comes back"
    assert machine.handle(PositionsFound(STATELESS, 2)) == [do.HandOut(STATELESS, 0)]
    assert machine.handle(Close(STATELESS, 7, brought=False)) == [do.ReportClosed(STATELESS, 7)]


def test_a_stateless_task_that_waits_for_its_positions_has_no_stores_to_close(machine: Machine) -> None:
    machine.handle(Restore(STATELESS, INPUTS))
    assert machine.handle(Close(STATELESS, 7, brought=False)) == [do.ReportClosed(STATELESS, 7)]


def test_stores_without_changelogs_are_handed_out_as_they_are(machine: Machine) -> None:
    machine.handle(Restore(UNLOGGED, INPUTS), PositionsFound(UNLOGGED, 1))
    assert machine.handle(Opened(UNLOGGED, {})) == [
        do.ReportOffsets(UNLOGGED, {}),
        do.CountOffsets(UNLOGGED, ACTIVE, 0),
        do.HandOut(UNLOGGED, 0),
    ]
    assert machine.handle(Close(UNLOGGED, 7, brought=False)) == [], "they are on their way"


def test_stores_without_changelogs_are_closed_while_the_task_waits_for_its_positions(machine: Machine) -> None:
    machine.handle(Restore(UNLOGGED, INPUTS), Opened(UNLOGGED, {}))
    effects = machine.handle(Close(UNLOGGED, 7, brought=False))
    assert kinds(effects) == [do.ReportDormant, do.CloseStores, do.ReportClosed]


def test_a_replica_is_never_handed_out(machine: Machine) -> None:
    restoring(machine)
    machine.handle(Tail(TASK))
    assert machine.handle(PositionsFound(TASK, 1)) == []
    assert machine.entry().place is Place.RESTORER


# --- look-ups ---------------------------------------------------------------------------------


def test_only_the_newest_look_up_counts(machine: Machine) -> None:
    restored(machine)
    machine.handle(Restore(TASK, GROWN))
    assert machine.handle(PositionsFound(TASK, 1), PositionsFailed(TASK, 1, "away")) == []
    assert kinds(machine.handle(PositionsFound(TASK, 2))) == [do.CountOffsets, do.HandOut]


@pytest.mark.parametrize("order", [Tail(TASK), Close(TASK, 7, brought=False)])
def test_an_answer_that_nobody_waits_for_any_more_is_ignored(machine: Machine, order: Event) -> None:
    restored(machine)
    machine.handle(order)
    assert not machine.restores.awaits(TASK, 1)
    assert machine.handle(PositionsFailed(TASK, 1, "away"), PositionsFound(TASK, 1)) == []


def test_an_answer_from_before_a_repair_is_not_used(machine: Machine) -> None:
    handed_out(machine)
    machine.handle(Repair(TASK, INPUTS, SPOILT, brought=True), Discarded(TASK, SPOILT), Opened(TASK, {}))
    machine.handle(Restored(TASK, NEW))
    assert machine.handle(PositionsFound(TASK, 1)) == []
    assert kinds(machine.handle(PositionsFound(TASK, 2))) == [do.CountOffsets, do.HandOut]


def test_a_look_up_that_fails_is_made_again_and_reported_once_the_task_waits_for_nothing_else(machine: Machine) -> None:
    restoring(machine)
    again = do.LookUpPositions(TASK, 1, INPUTS)
    assert machine.handle(PositionsFailed(TASK, 1, "away")) == [again]
    assert machine.restores.unanswered() == {}
    machine.handle(Restored(TASK, NEW))
    for _ in range(2):
        assert machine.handle(PositionsFailed(TASK, 1, "away")) == [do.AnnounceLookUpFailed(TASK, "away"), again]
        machine.now_ms += 500
    assert machine.restores.unanswered() == {TASK: 10_000}
    machine.handle(Restore(TASK, GROWN))
    assert machine.restores.unanswered() == {TASK: 10_000}, "it has waited since"
    machine.handle(PositionsFound(TASK, 2))
    assert machine.restores.unanswered() == {}


# --- stops and retries --------------------------------------------------------------------------


def test_a_damaged_store_is_discarded_and_restored_at_once_and_the_second_time_after_a_pause(machine: Machine) -> None:
    machine.handle(Restore(TASK, INPUTS))
    discard = [do.ReportNothing(TASK), do.DiscardFolder(TASK, SPOILT)]
    announced = do.AnnounceDiscarded(TASK, "spoilt")
    assert machine.handle(OpenFailed(TASK, SPOILT)) == discard
    assert machine.handle(Discarded(TASK, SPOILT)) == [announced, do.OpenStores(TASK)]
    assert machine.restores.stopped() == {}
    assert machine.handle(OpenFailed(TASK, SPOILT)) == discard
    assert machine.handle(Discarded(TASK, SPOILT)) == [announced, do.AnnounceStopped(TASK, "spoilt", PAUSE_MS)]
    assert machine.restores.stopped() == {TASK: Stop("spoilt", 1, 10_000 + PAUSE_MS, reported=True)}
    assert machine.restores.due_ms() == 10_000 + PAUSE_MS


@pytest.mark.parametrize(
    ("met", "open_here"),
    [(OpenFailed(TASK, SPOILT), False), (StoresFailed(TASK, SPOILT), True)],
    ids=["opening", "reading"],
)
def test_stores_that_are_open_are_closed_before_their_folder_goes(machine: Machine, met: Event, open_here) -> None:
    restoring(machine)
    closes = [do.CloseStores(TASK)] if open_here else []
    assert machine.handle(met) == [do.ReportNothing(TASK), *closes, do.DiscardFolder(TASK, SPOILT)]
    assert (machine.entry().place, machine.restores.progress()) == (Place.CLOSED, {})


@pytest.mark.parametrize("brought", [True, False])
def test_a_repair_looks_positions_up_again_and_closes_what_it_brought(machine: Machine, brought: bool) -> None:
    handed_out(machine)
    closes = [do.CloseStores(TASK)] if brought else []
    assert machine.handle(Repair(TASK, GROWN, SPOILT, brought)) == [
        do.LookUpPositions(TASK, 2, GROWN),
        do.ReportNothing(TASK),
        *closes,
        do.DiscardFolder(TASK, SPOILT),
    ]
    assert not machine.restores.running


def test_what_only_an_operator_can_mend_stops_the_task_and_discards_nothing(machine: Machine) -> None:
    machine.handle(Restore(TASK, INPUTS))
    effects = machine.handle(OpenFailed(TASK, FULL))
    assert effects == [do.ReportNothing(TASK), do.AnnounceStopped(TASK, "no space left", PAUSE_MS)]


def test_a_folder_that_cannot_be_moved_away_stops_the_task(machine: Machine) -> None:
    machine.handle(Restore(TASK, INPUTS), OpenFailed(TASK, SPOILT))
    effects = machine.handle(DiscardFailed(TASK, StateError("in use")))
    assert effects == [do.AnnounceStopped(TASK, "in use", PAUSE_MS)]


def test_pauses_double_to_a_minute_and_a_stop_is_news_once() -> None:
    machine = Machine()
    machine.restores = Restores(SHAPE, "app")
    machine.handle(Restore(TASK, INPUTS))
    announced = [machine.handle(OpenFailed(TASK, FULL))]
    pauses = []
    for _ in range(8):
        due_ms = machine.restores.due_ms()
        assert due_ms is not None
        pauses.append(due_ms - machine.now_ms)
        machine.now_ms = due_ms - 1
        assert machine.handle(Woke()) == [], "not before its time"
        machine.now_ms = due_ms
        assert machine.handle(Woke()) == [do.OpenStores(TASK)]
        assert (machine.restores.due_ms(), machine.entry().stop.trying) == (None, True)
        announced.append(machine.handle(OpenFailed(TASK, FULL)))
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    assert kinds(announced[0]) == [do.ReportNothing, do.AnnounceStopped]
    assert announced[1:] == [[do.ReportNothing(TASK)]] * 8


def test_a_stopped_task_is_tried_as_what_it_is_wanted_for_by_then(machine: Machine) -> None:
    stopped(machine)
    assert machine.handle(Restore(TASK, INPUTS)) == [do.LookUpPositions(TASK, 1, INPUTS)]
    machine.now_ms += PAUSE_MS
    assert machine.handle(Woke()) == [do.OpenStores(TASK)]
    effects = machine.handle(Opened(TASK, {}))
    assert effects == [do.ReportOffsets(TASK, {}), do.ReadChangelogs(TASK, STORE_OF, ACTIVE)]


def test_the_others_go_on(machine: Machine) -> None:
    stopped(machine)
    assert machine.handle(Tail(OTHER)) == [do.OpenStores(OTHER)]
    machine.handle(OpenFailed(OTHER, FULL))
    machine.now_ms += PAUSE_MS
    assert machine.handle(Woke()) == [do.OpenStores(TASK), do.OpenStores(OTHER)]


def test_an_active_task_resumes_when_it_is_handed_out(machine: Machine) -> None:
    machine.handle(Restore(TASK, INPUTS), OpenFailed(TASK, FULL), PositionsFound(TASK, 1))
    machine.now_ms += PAUSE_MS
    machine.handle(Woke(), Opened(TASK, OLD), Progress(TASK, ACTIVE, progress(9, 9)))
    assert set(machine.restores.stopped()) == {TASK}
    effects = machine.handle(Restored(TASK, NEW))
    assert effects == [do.CountOffsets(TASK, ACTIVE, 0), do.AnnounceResumed(TASK), do.HandOut(TASK, 4)]
    assert machine.restores.stopped() == {}


def test_a_replica_resumes_when_it_is_at_the_end(machine: Machine) -> None:
    stopped(machine)
    machine.now_ms += PAUSE_MS
    machine.handle(Woke(), Opened(TASK, OLD))
    resumed = do.AnnounceResumed(TASK)
    assert resumed not in machine.handle(Progress(TASK, STANDBY, progress(7, 9)))
    assert machine.handle(Progress(TASK, STANDBY, progress(9, 9)))[-1] == resumed
    assert resumed not in machine.handle(Progress(TASK, STANDBY, progress(9, 9)))


def test_a_store_that_worked_is_discarded_at_once_again(machine: Machine) -> None:
    for _ in range(2):
        machine.handle(Restore(TASK, INPUTS), OpenFailed(TASK, SPOILT))
        assert kinds(machine.handle(Discarded(TASK, SPOILT))) == [do.AnnounceDiscarded, do.OpenStores]
        machine.handle(Opened(TASK, {}), Restored(TASK, NEW))
        effects = machine.handle(PositionsFound(TASK, machine.entry().look_up.number))
        assert do.AnnounceResumed(TASK) not in effects, "it was never announced as stopped"
        machine.handle(Close(TASK, 7, brought=True))


def test_closing_a_stopped_task_forgets_its_stop(machine: Machine) -> None:
    stopped(machine)
    assert machine.handle(Close(TASK, 7, brought=False)) == [CLOSED], "it has not resumed"
    assert (machine.restores.stopped(), machine.restores.due_ms()) == ({}, None)
    machine.now_ms += PAUSE_MS
    assert machine.handle(Woke()) == []


def test_a_missing_changelog_is_announced_and_looked_for_by_the_restorer(machine: Machine) -> None:
    restoring(machine)
    effects = machine.handle(Missing(TASK, (CHANGELOG,)))
    assert isinstance(effects[0], do.AnnounceStopped)
    assert (effects[0].task, effects[0].retry_ms) == (TASK, MISSING_RETRY_MS)
    assert f"{CHANGELOG} does not exist; create it again, or wait" in effects[0].reason
    assert machine.restores.due_ms() is None
    machine.handle(PositionsFound(TASK, 1))
    assert do.AnnounceResumed(TASK) in machine.handle(Restored(TASK, NEW))


def test_a_missing_partition_of_a_table_is_announced_without_hope_for_the_leader() -> None:
    table = TopologyShape((SubtopologyShape(("in", "users"), (Store("users", source="users"), Store("own"))),))
    restores, users = Restores(table, "app", PAUSE_MS), TopicPartition("users", 0)
    for event in (Restore(TASK, INPUTS), Opened(TASK, {})):
        restores.handle(event, 0)
    (stopped,) = restores.handle(Missing(TASK, (TopicPartition("app-own-changelog", 0), users)), 0)
    assert isinstance(stopped, do.AnnounceStopped)
    assert "app-own-changelog-0, users-0 does not exist; users is a source topic: " in stopped.reason
    assert "as many partitions as" in stopped.reason
    assert "create it again" not in stopped.reason
    assert "the leader creates" not in stopped.reason


# --- counting and looking -----------------------------------------------------------------------


def test_what_was_read_is_counted_once_by_purpose(machine: Machine) -> None:
    tailing(machine)
    assert machine.handle(Progress(TASK, STANDBY, progress(8, 9))) == [
        do.ReportOffsets(TASK, {CHANGELOG: 8}),
        do.CountOffsets(TASK, STANDBY, 3),
    ]
    machine.handle(Restore(TASK, INPUTS), PositionsFound(TASK, 1))
    counted = do.CountOffsets(TASK, ACTIVE, 4)
    assert counted in machine.handle(Progress(TASK, ACTIVE, progress(12, 15)))
    assert machine.handle(Restored(TASK, {CHANGELOG: 15})) == [
        do.CountOffsets(TASK, ACTIVE, 3),
        do.HandOut(TASK, 7),
    ], "restored is what was read since it became active"


def test_a_store_that_starts_over_is_counted_from_there(machine: Machine) -> None:
    tailing(machine)
    assert machine.handle(StartedOver(TASK, "overtaken")) == [do.AnnounceWiped(TASK, "overtaken")]
    assert do.CountOffsets(TASK, STANDBY, 0) in machine.handle(Progress(TASK, STANDBY, progress(2, 9)))
    assert do.CountOffsets(TASK, STANDBY, 5) in machine.handle(Progress(TASK, STANDBY, progress(7, 9)))


def test_lags_and_progress_are_as_last_reported(machine: Machine) -> None:
    restoring(machine)
    assert machine.restores.lags() == {}, "its ends are not known yet"
    machine.handle(Progress(TASK, ACTIVE, progress(6, 9)))
    assert machine.restores.lags() == {TASK: 3}
    machine.handle(Restored(TASK, NEW))
    assert (machine.restores.lags(), machine.restores.progress()) == ({TASK: 0}, {})
    machine.handle(PositionsFound(TASK, 1))
    assert machine.restores.lags() == {}, "it runs"


def test_an_active_task_counts_as_restoring_until_it_is_handed_out(machine: Machine) -> None:
    seen = []
    for step in (
        (Tail(TASK), Opened(TASK, OLD)),
        (Restore(TASK, INPUTS),),
        (Restored(TASK, NEW),),
        (PositionsFound(TASK, 1),),
    ):
        machine.handle(*step)
        seen.append((machine.restores.restoring, machine.restores.running))
    assert seen == [(False, False), (True, False), (True, False), (False, True)]


@pytest.mark.parametrize("order", [Restore(TASK, INPUTS, NEW), Tail(TASK, NEW), Repair(TASK, INPUTS, FULL, True)])
def test_a_task_runs_until_its_stores_come_back(machine: Machine, order: Event) -> None:
    """What the loop is handed may still be what it wants after another order: inputs that grew and shrank again."""
    handed_out(machine)
    machine.handle(Restore(TASK, GROWN))
    assert machine.restores.running
    machine.handle(order)
    assert not machine.restores.running


def test_a_task_without_stores_runs_until_the_next_order(machine: Machine) -> None:
    machine.handle(Restore(STATELESS, INPUTS), PositionsFound(STATELESS, 1))
    assert machine.restores.running
    machine.handle(Restore(STATELESS, GROWN))
    assert not machine.restores.running


def test_readers_get_copies(machine: Machine) -> None:
    restoring(machine)
    before = machine.restores.entries()
    machine.handle(Close(TASK, 7, brought=False))
    assert before[TASK].place is Place.RESTORER
