"""When a global table may be read, and when it is built again: by example, and against a slow twin."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.engine import global_tables as machine
from kstreams_assign.engine.global_tables import (
    Added,
    AllowReads,
    AnnounceReady,
    AnnounceRebuilt,
    AnnounceStopped,
    CloseDatabase,
    Counted,
    Discarded,
    DiscardFailed,
    DiscardFolder,
    GlobalTables,
    OpenDatabase,
    Opened,
    OpenFailed,
    Progressed,
    ReadFailed,
    ReadsAllowed,
    ReadTopic,
    RefuseReads,
    StartedOver,
    StoresFailed,
    TakeFromRestorer,
    TopicMissed,
    Woke,
)
from kstreams_assign.engine.stops import FIRST_PAUSE_MS
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TopicPartition
from kstreams_assign.restore.progress import TaskProgress

DAMAGE, FULL_DISK = StoreDamaged("a block is damaged"), StateError("no space left")


def at(*positions_and_ends: tuple[int, int]) -> TaskProgress:
    """Return the progress of a table: position and end of each partition."""
    partitions = [TopicPartition("countries", number) for number in range(len(positions_and_ends))]
    positions = [position for position, _ in positions_and_ends]
    ends = [end for _, end in positions_and_ends]
    return TaskProgress.begin(
        dict(zip(partitions, positions, strict=True)), dict(zip(partitions, ends, strict=True)), 0
    )


def reading() -> GlobalTables:
    tables = GlobalTables()
    assert tables.handle(Added("t", 2), 0) == [OpenDatabase("t")]
    assert tables.handle(Opened("t"), 0) == [ReadTopic("t", 2)]
    return tables


def ready() -> GlobalTables:
    tables = reading()
    assert tables.handle(Progressed("t", at((0, 0), (0, 0))), 0) == [AllowReads("t")]
    assert tables.handle(ReadsAllowed("t"), 0) == [AnnounceReady("t", 0)]
    return tables


def test_a_table_may_be_read_at_the_ends_as_they_were_first_looked_up():
    tables = reading()
    assert tables.handle(Progressed("t", at((3, 5), (0, 2))), 0) == []
    assert tables.handle(Progressed("t", at((5, 90), (1, 50))), 0) == []
    assert not tables.all_ready
    assert tables.handle(Progressed("t", at((6, 95), (2, 55))), 0) == [AllowReads("t")]
    assert tables.handle(ReadsAllowed("t"), 0) == [AnnounceReady("t", 0)]
    assert tables.all_ready
    assert tables.entries()["t"].behind() == 142
    assert tables.handle(Progressed("t", at((7, 95), (2, 55))), 0) == []


def test_a_table_that_is_ready_says_how_many_offsets_it_has_read():
    tables, progress = reading(), at((3, 5), (0, 2))
    tables.handle(Progressed("t", progress), 0)
    for name, each in progress.partitions.items():
        progress = progress.advanced(name, each.end, 0)
    assert tables.handle(Progressed("t", progress), 0) == [AllowReads("t")]
    assert tables.handle(ReadsAllowed("t"), 0) == [AnnounceReady("t", 4)]


def test_a_table_whose_topic_loses_its_last_records_while_it_is_read_may_be_read_at_the_new_end():
    """After an unclean election, or a crash of a broker that had the only replica. No later record need come."""
    tables = reading()
    assert tables.handle(Progressed("t", at((3, 5), (0, 9))), 0) == []
    assert tables.handle(Progressed("t", at((3, 5), (2, 4))), 0) == []
    assert tables.handle(Progressed("t", at((5, 5), (3, 7))), 0) == []
    assert tables.handle(Progressed("t", at((5, 5), (4, 7))), 0) == [AllowReads("t")]


def test_all_tables_are_ready_when_the_last_one_is():
    tables = ready()
    tables.handle(Added("u", 1), 0)
    assert not tables.all_ready
    tables.handle(Opened("u"), 0)
    tables.handle(Progressed("u", at((0, 0))), 0)
    tables.handle(ReadsAllowed("u"), 0)
    assert tables.all_ready


def test_without_tables_everything_is_ready():
    assert GlobalTables().all_ready


def test_an_emptied_table_is_refused_until_it_has_reached_its_new_goal():
    tables = ready()
    assert tables.handle(StartedOver("t", "created again"), 0) == [
        RefuseReads("t", "created again"),
        AnnounceRebuilt("t", "created again"),
    ]
    assert not tables.all_ready
    assert tables.handle(Progressed("t", at((0, 4), (0, 0))), 0) == []
    assert tables.handle(Progressed("t", at((4, 4), (0, 0))), 0) == [AllowReads("t")]


@pytest.mark.parametrize("while_ready", [True, False])
def test_a_damaged_table_is_built_again_at_once_and_after_a_pause_the_next_time(while_ready):
    tables = ready() if while_ready else reading()
    closing = [RefuseReads("t", str(DAMAGE)), TakeFromRestorer("t"), CloseDatabase("t"), DiscardFolder("t", DAMAGE)]
    assert tables.handle(ReadFailed("t", DAMAGE), 0) == closing
    again = [AnnounceRebuilt("t", str(DAMAGE)), OpenDatabase("t")]
    assert tables.handle(Discarded("t", DAMAGE), 0) == again
    assert not tables.all_ready
    tables.handle(Opened("t"), 0)
    assert tables.handle(StoresFailed("t", DAMAGE), 5) == [
        RefuseReads("t", str(DAMAGE)),
        CloseDatabase("t"),
        DiscardFolder("t", DAMAGE),
    ]
    stopped = tables.handle(Discarded("t", DAMAGE), 5)
    assert stopped == [AnnounceRebuilt("t", str(DAMAGE)), AnnounceStopped("t", str(DAMAGE), FIRST_PAUSE_MS)]
    assert tables.due_ms() == 5 + FIRST_PAUSE_MS
    assert tables.handle(Woke(), 5 + FIRST_PAUSE_MS) == [OpenDatabase("t")]


def test_what_only_a_person_can_mend_is_tried_again_and_the_database_stays():
    tables = reading()
    stopped = [RefuseReads("t", str(FULL_DISK)), CloseDatabase("t"), AnnounceStopped("t", str(FULL_DISK), 1_000)]
    assert tables.handle(StoresFailed("t", FULL_DISK), 0) == stopped
    assert tables.handle(Woke(), 999) == []
    assert tables.handle(Woke(), 1_000) == [OpenDatabase("t")]
    assert tables.handle(OpenFailed("t", FULL_DISK), 1_000) == [RefuseReads("t", str(FULL_DISK))], "it is news once"
    assert tables.due_ms() == 3_000
    assert tables.handle(Woke(), 3_000) == [OpenDatabase("t")]
    tables.handle(Opened("t"), 3_000)
    tables.handle(Progressed("t", at((0, 0), (0, 0))), 3_000)
    tables.handle(ReadsAllowed("t"), 3_000)
    assert tables.entries()["t"].stop is None


def test_a_folder_that_cannot_be_moved_is_tried_again():
    tables = reading()
    tables.handle(StoresFailed("t", DAMAGE), 0)
    assert tables.handle(DiscardFailed("t", FULL_DISK), 0) == [AnnounceStopped("t", str(FULL_DISK), 1_000)]


def test_a_second_report_of_the_same_failure_is_ignored():
    tables = ready()
    tables.handle(ReadFailed("t", FULL_DISK), 0)
    assert tables.handle(ReadFailed("t", FULL_DISK), 0) == []


def test_a_deleted_topic_leaves_the_table_readable_and_is_reported_until_it_exists_again():
    tables = ready()
    assert tables.handle(TopicMissed("t", "countries"), 0) == [
        AnnounceStopped("t", "its topic countries does not exist; create it again", 1_000)
    ]
    assert tables.missed
    assert tables.all_ready
    assert tables.handle(Counted("t", 0), 0) == []
    assert tables.missed
    assert tables.handle(Counted("t", 2), 0) == []
    assert not tables.missed
    assert tables.entries()["t"].stop is None


def test_a_topic_that_grows_is_read_whole_and_the_table_stays_readable():
    tables = ready()
    assert tables.handle(Counted("t", 2), 0) == []
    assert tables.handle(Counted("t", 3), 0) == [TakeFromRestorer("t"), ReadTopic("t", 3)]
    assert tables.all_ready
    assert tables.handle(Progressed("t", at((0, 0), (0, 0), (0, 9))), 0) == []


def test_a_topic_that_grows_before_the_table_is_complete_has_a_new_goal():
    tables = reading()
    tables.handle(Progressed("t", at((0, 5), (0, 0))), 0)
    tables.handle(Counted("t", 3), 0)
    assert tables.handle(Progressed("t", at((5, 5), (0, 0), (0, 1))), 0) == []
    assert tables.handle(Progressed("t", at((5, 5), (0, 0), (1, 1))), 0) == [AllowReads("t")]


def test_a_count_while_the_database_is_closed_holds_for_the_next_opening():
    tables = reading()
    tables.handle(StoresFailed("t", FULL_DISK), 0)
    assert tables.handle(Counted("t", 4), 0) == []
    tables.handle(Woke(), 1_000)
    assert tables.handle(Opened("t"), 1_000) == [ReadTopic("t", 4)]


# --- the slow twin ------------------------------------------------------------------------


@dataclass
class Twin:
    """All that has happened to a table; whether it may be read is worked out from the whole of it each time."""

    happened: list[object] = field(default_factory=list)

    def may_be_read(self) -> bool:
        since = [
            n for n, event in enumerate(self.happened) if isinstance(event, StartedOver | StoresFailed | ReadFailed)
        ]
        life = self.happened[since[-1] + 1 if since else 0 :]
        reports = [event.progress.partitions for event in life if isinstance(event, Progressed)]
        return any(
            all(at.position >= min(report[name].end for report in reports[: n + 1]) for name, at in later.items())
            for n, later in enumerate(reports)
        )


class Played:
    """A table whose shell answers at once, as the real one does; a pause is waited for."""

    def __init__(self) -> None:
        self.tables, self.twin = GlobalTables(), Twin()
        self.now_ms, self.allowed = 0, False
        self.positions, self.ends = [0, 0], [3, 0]
        self.tell(Added("t", 2))

    def tell(self, event: machine.Event) -> None:
        if not isinstance(event, ReadsAllowed):
            self.twin.happened.append(event)
        for effect in self.tables.handle(event, self.now_ms):
            match effect:
                case OpenDatabase(table):
                    self.tell(Opened(table))
                case DiscardFolder(table, cause):
                    self.tell(Discarded(table, cause))
                case AllowReads(table):
                    self.allowed = True
                    self.tell(ReadsAllowed(table))
                case RefuseReads():
                    self.allowed = False

    def lose(self, event: machine.Event) -> None:
        """Start from the beginning, as the restore loop does with an empty database."""
        self.positions = [0, 0]
        self.tell(event)

    def report(self) -> None:
        if (due_ms := self.tables.due_ms()) is not None:
            self.now_ms = due_ms
            self.tell(Woke())
        self.tell(Progressed("t", at(*zip(self.positions, self.ends, strict=True))))


LOSSES = (StartedOver("t", "wiped"), StoresFailed("t", DAMAGE), ReadFailed("t", DAMAGE))
HAPPENINGS = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 1), st.integers(1, 6)),
    st.tuples(st.just("grow"), st.integers(0, 1), st.integers(1, 6)),
    st.tuples(st.just("cut"), st.integers(0, 1), st.integers(1, 6)),
    st.sampled_from([*LOSSES, StoresFailed("t", FULL_DISK), ReadFailed("t", FULL_DISK)]),
)


@given(st.lists(HAPPENINGS, max_size=60))
def test_a_table_may_be_read_exactly_when_the_twin_says_so(happenings):
    played = Played()
    for happening in happenings:
        match happening:
            case ("read", partition, count):
                end = played.ends[partition]
                played.positions[partition] = min(end, played.positions[partition] + count)
            case ("grow", partition, count):
                played.ends[partition] += count
            case ("cut", partition, count):
                played.ends[partition] = max(played.positions[partition], played.ends[partition] - count)
            case loss if loss in LOSSES:
                played.lose(loss)
            case failure:
                played.tell(failure)
        played.report()
        assert played.allowed is played.tables.all_ready is played.twin.may_be_read()
