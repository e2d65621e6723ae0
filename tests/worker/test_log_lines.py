"""What an operator reads of a worker: its events as a transcript."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kstreams_assign.events import (
    EVENTS,
    AssignedEvent,
    BrokerUnavailableEvent,
    ClosedEvent,
    DecisionEvent,
    Event,
    FunctionFailedEvent,
    GlobalTableReadingEvent,
    GlobalTableReadyEvent,
    GlobalTableRebuiltEvent,
    GlobalTableStoppedEvent,
    JoiningEvent,
    LostEvent,
    Placement,
    RestorePace,
    RestoringEvent,
    RunningEvent,
    SessionEndedEvent,
    StatusEvent,
    WarmingElsewhereEvent,
)
from kstreams_assign.worker.log_lines import REPEAT_MS, LogLines
from tests.worker.app import PARTITIONS, App, Running
from tests.worker.described import sample

T0_MS = 1_800_000_000_000
"""Friday, 15 January 2027, 08:00:00 UTC."""
MINUTE_MS = 60_000
FOLDER, NEWCOMER = "5c7ff2e1-1111-4111-8111-111111111111", "9e0d41aa-2222-4222-8222-222222222222"
NO_TASKS: Mapping[str, Sequence[str]] = {"active": (), "standby": (), "warmup": ()}


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Story:
    """Events in order, and the lines that they make."""

    def __init__(self) -> None:
        self._lines = LogLines()
        self.now_ms = T0_MS
        self.lines: list[str] = []
        self.levels: list[int] = []

    def say(self, event: Event, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        for line in self._lines.lines(replace(event, time_ms=self.now_ms, process_id=FOLDER)):
            self.lines.append(line.text)
            self.levels.append(line.level)

    def decide(self, placements: Mapping[str, Mapping[str, Sequence[str]]], **facts: Any) -> None:
        nothing = {"changed": {}, "adopted": (), "withheld": (), "error": 0}
        self.say(
            DecisionEvent(
                kind="round",
                assignor="least_movement",
                assignor_version=1,
                members=len(placements),
                placements={process: Placement(**{**NO_TASKS, **tasks}) for process, tasks in placements.items()},
                owner_changes_lower_bound=0,
                next_probe_ms=None,
                record_bytes=1_000,
                warnings=(),
                seconds=0.012,
                **{**nothing, **facts},
            )
        )

    def assign(self, generation: int, *, probe_ms: int | None = None, follow_up: bool = False, **tasks: Any) -> None:
        self.say(
            AssignedEvent(
                generation=generation,
                assignor="least_movement",
                next_probe_ms=None if probe_ms is None else self.now_ms + probe_ms,
                follow_up=follow_up,
                version=11,
                warnings=(),
                **{**NO_TASKS, **tasks},
            )
        )

    def status(self, remaining: Mapping[str, int], after_ms: int = 0) -> None:
        """Say how many offsets each task has still to restore."""
        paces = {
            task: RestorePace(remaining=offsets, offsets_per_s=90_000, left_ms=8_000)
            for task, offsets in remaining.items()
        }
        self.say(StatusEvent(generation=1, next_probe_ms=None, records_total=0, tasks={}, restoring=paces), after_ms)


def test_a_drain_says_what_it_waits_for() -> None:
    story, tasks = Story(), {"0_1": "member", "0_2": "member"}
    story.say(WarmingElsewhereEvent(tasks=tasks))
    story.say(WarmingElsewhereEvent(tasks=tasks, away=("i1",)))
    story.say(WarmingElsewhereEvent(tasks={}, away=("i1",)))
    assert [line.partition("once ")[2] for line in story.lines] == [
        "others have restored 2 tasks (0_1, 0_2).",
        "others have restored 2 tasks (0_1, 0_2), and i1 is back or its session has ended.",
        "i1 is back or its session has ended.",
    ]


def test_a_join_a_scale_out_and_a_departure_read_as_sentences():
    story = Story()
    story.say(JoiningEvent(reason="first join"))
    story.decide({FOLDER: {"active": ("0_0", "0_1")}}, adopted=("0_0", "0_1"))
    story.assign(1, active=("0_0", "0_1"))
    story.status({"0_0": 400_000, "0_1": 600_000})
    story.status({"0_0": 100_000, "0_1": 270_000}, 5_000)
    story.say(RestoringEvent(tasks=("0_0", "0_1"), remaining=370_000, offsets_per_s=180_000, left_s=3))
    story.say(RunningEvent(task="0_0", positions={"in-0": 1}, restored=400_000), 2_000)
    story.say(RunningEvent(task="0_1", positions={"in-1": 1}, restored=600_000), 1_000)
    story.say(JoiningEvent(reason="the group rebalances"), MINUTE_MS)
    story.decide({FOLDER: {"active": ("0_0", "0_1")}, NEWCOMER: {"warmup": ("0_1",)}})
    story.assign(2, active=("0_0", "0_1"), probe_ms=10 * MINUTE_MS - 10_000)
    story.say(JoiningEvent(reason="probing rebalance"), 90_000)
    moving = {NEWCOMER: {}, FOLDER: {"active": ("0_0",), "standby": ("0_1",)}}
    story.decide(moving, changed={"0_1": (FOLDER, NEWCOMER)}, withheld=("0_1",))
    story.assign(3, active=("0_0",), standby=("0_1",), follow_up=True)
    story.say(JoiningEvent(reason="follow-up: the leader has announced it"))
    story.decide({FOLDER: {"active": ("0_0",), "standby": ("0_1",)}, NEWCOMER: {"active": ("0_1",)}})
    story.assign(4, active=("0_0",), standby=("0_1",))
    story.say(JoiningEvent(reason="the group rebalances"), MINUTE_MS)
    story.decide({FOLDER: {"active": ("0_0", "0_1")}}, adopted=("0_1",))
    story.assign(5, active=("0_0", "0_1"))
    story.say(RunningEvent(task="0_1", positions={"in-1": 1}, restored=0), 100)
    story.say(ClosedEvent(error=None))
    assert story.lines == TRANSCRIPT.splitlines()
    assert {*story.levels} == {logging.INFO}


TRANSCRIPT = """\
Process 5c7ff2e1 joins the group (process id 5c7ff2e1-1111-4111-8111-111111111111).
This member leads the group and assigned 2 active tasks to 1 process (least_movement, 12 ms).
2 tasks (0_0, 0_1) had no owner and got one.
Generation 1 gives this member 2 active tasks (0_0, 0_1).
This member restores 2 tasks (0_0, 0_1): 63 % done, 370,000 records to go at 180,000 a second, about 3 s left.
This member runs its 2 active tasks, 8 s after the assignment; 1,000,000 records restored.
This member joins the next generation: the group rebalances.
This member leads the group and assigned 2 active tasks and 1 warm-up to 2 processes (least_movement, 12 ms).
Process 9e0d41aa joined the group.
Task 0_1 warms up on process 9e0d41aa.
Generation 2 gives this member 2 active tasks: the same as before.
The next probing rebalance is due in 9 min 50 s, at 08:10:58.
This member joins the next generation: probing rebalance.
This member leads the group and assigned 1 active task and 1 standby to 2 processes (least_movement, 12 ms).
Task 0_1 moves from process 5c7ff2e1 to process 9e0d41aa.
Task 0_1 waits for the current owner to release it; a follow-up rebalance comes next.
Generation 3 gives this member 1 active task and 1 standby: it gains 1 standby (0_1) and gives up 1 active task (0_1).
This member joins the next generation: follow-up: the leader has announced it.
This member leads the group and assigned 2 active tasks and 1 standby to 2 processes (least_movement, 12 ms).
Generation 4 gives this member 1 active task and 1 standby: the same as before.
This member joins the next generation: the group rebalances.
This member leads the group and assigned 2 active tasks to 1 process (least_movement, 12 ms).
Process 9e0d41aa left the group.
Task 0_1 had no owner and got one.
Generation 5 gives this member 2 active tasks: it gains 1 active task (0_1).
This member runs its 2 active tasks, within a second of the assignment; 0 records restored.
This worker is closed.
"""


def test_a_follower_does_not_say_who_came_and_went():
    story = Story()
    story.decide({FOLDER: {"active": ("0_0",)}})
    story.assign(1, active=("0_0",))
    story.assign(2, active=("0_0",))  # another member led
    story.decide({NEWCOMER: {"active": ("0_0",)}})
    assert not [line for line in story.lines if "joined" in line or "left" in line]


def test_long_lists_are_cut_and_the_rest_is_counted():
    story = Story()
    story.assign(1, active=tuple(f"0_{n}" for n in range(1_200)))
    assert story.lines == [
        "Generation 1 gives this member 1,200 active tasks (0_0, 0_1, 0_2, 0_3, 0_4, 0_5, 0_6, 0_7 and 1,192 more)."
    ]


def test_trouble_is_a_warning_and_the_same_trouble_is_not_repeated_for_a_while():
    story = Story()
    for after_ms in (0, 1_000, REPEAT_MS):
        story.say(BrokerUnavailableEvent(reason="no answer in 5 s"), after_ms)
    story.assign(1, active=("0_0", "0_1"))
    story.say(LostEvent(reason="the group went on without this member"))
    assert story.lines == [
        "The broker does not answer (no answer in 5 s); this member tries again.",
        "The broker does not answer (no answer in 5 s); this member tries again.",
        "Generation 1 gives this member 2 active tasks (0_0, 0_1).",
        (
            "This member lost its place in the group and its 2 active tasks: the group went on without this member; "
            "it drops what is not committed and joins again."
        ),
    ]
    assert story.levels == [logging.WARNING, logging.WARNING, logging.INFO, logging.WARNING]


def test_an_error_of_the_function_names_the_record_and_the_end_names_the_error():
    story = Story()
    story.say(FunctionFailedEvent(task="0_0", partition="in-0", offset=7, records=3, reason="KeyError: 'x'"))
    story.say(ClosedEvent(error="KeyError: 'x'"))
    assert story.lines == [
        (
            "The function of task 0_0 raised KeyError: 'x' at in-0 offset 7 (batch of 3 records); nothing of the batch "
            "is committed, and this worker ends."
        ),
        "This worker has ended by an error: KeyError: 'x'.",
    ]
    assert story.levels == [logging.ERROR, logging.INFO]


def test_the_end_of_a_session_says_whether_work_is_left():
    story = Story()
    story.say(SessionEndedEvent(uncommitted=False))
    story.say(SessionEndedEvent(uncommitted=True))
    assert story.lines == [
        "The application has disconnected; all its work is committed.",
        "The application has disconnected; uncommitted records are read again by the next session.",
    ]


def test_a_global_table_reads_as_sentences():
    story = Story()
    table = {"table": "countries", "topic": "codes"}
    story.say(GlobalTableReadingEvent(**table, remaining=12_000, offsets_per_s=None, left_s=None))
    story.say(GlobalTableReadingEvent(**table, remaining=1, offsets_per_s=100, left_s=90))
    story.say(GlobalTableReadyEvent(**table, offsets=12_000))
    story.say(GlobalTableStoppedEvent(table="countries", reason="no space left", retry_ms=1_000))
    story.say(GlobalTableRebuiltEvent(table="countries", reason="a block is damaged"))
    reading, then = "Global table countries is being read: ", "It can be read when it is complete."
    assert story.lines == [
        f"{reading}12,000 offsets of topic codes remain. {then}",
        f"{reading}1 offset of topic codes remains, about 1 min 30 s left. {then}",
        "Global table countries is complete: 12,000 offsets of topic codes read.",
        "Global table countries is not kept up to date (no space left); it is tried again in 1 s.",
        "Global table countries is built again from the start of its topic (a block is damaged).",
    ]
    assert story.levels == [logging.INFO] * 3 + [logging.WARNING] * 2


def test_workers_on_a_broker_say_who_joined_what_moved_and_who_left(app: App):
    first = app.start(1)
    first.until_running(PARTITIONS)
    second = app.start(2)
    second.until(lambda events: any(isinstance(e, AssignedEvent) and len(e.active) == PARTITIONS // 2 for e in events))
    second.until_running(PARTITIONS // 2)
    second.stop()
    first.until_running(PARTITIONS)
    first.stop()
    names = {first.reported(ClosedEvent)[0].process_id: "A", second.reported(ClosedEvent)[0].process_id: "B"}
    lines = steady(first, names)
    assert lines[:4] == [
        "Process A joins the group (process id A).",
        "This member leads the group and assigned 4 active tasks to 1 process (least_movement, N ms).",
        "4 tasks (0_0, 0_1, 0_2, 0_3) had no owner and got one.",
        "Generation N gives this member 4 active tasks (0_0, 0_1, 0_2, 0_3).",
    ]
    assert in_order(
        lines,
        "This member runs its 4 active tasks, ",
        "This member joins the next generation: ",
        "Process B joined the group.",
        "2 tasks (0_2, 0_3) move from process A to process B.",
        "2 tasks (0_2, 0_3) wait for the current owner to release them; a follow-up rebalance comes next.",
        "Generation N gives this member 2 active tasks: it gives up 2 active tasks (0_2, 0_3).",
        "Process B left the group.",
        "2 tasks (0_2, 0_3) had no owner and got one.",
        "Generation N gives this member 4 active tasks: it gains 2 active tasks (0_2, 0_3).",
        "This member runs its 4 active tasks, ",
        "This worker is closed.",
    ), "\n".join(lines)
    assert in_order(steady(second, names), "Process B joins the group", "This member runs its 2 active tasks, ")


def steady(worker: Running, names: Mapping[str, str]) -> list[str]:
    """The lines of a worker; processes by name, and N for generations and milliseconds."""
    log = LogLines()
    text = "\n".join(line.text for event in worker.events for line in log.lines(event))
    for process, name in names.items():
        text = text.replace(process, name).replace(process[:8], name)
    return re.sub(r"(?<=Generation )\d+|\d+(?= ms\))", "N", text).splitlines()


def in_order(lines: list[str], *beginnings: str) -> bool:
    """Whether lines that begin so come in this order, others between them."""
    rest = iter(lines)
    return all(any(line.startswith(beginning) for line in rest) for beginning in beginnings)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.name)
def test_a_line_is_a_sentence_without_names_of_python_or_json(kind):
    for line in LogLines().lines(sample(kind)):
        assert re.match(r"[A-Z].*\.$", line.text), line.text
        assert not re.search(r"\w=|\d{12}|None|\{|\[|\(\'", line.text), line.text


def test_a_restore_that_begins_again_elsewhere_has_a_reason():
    story = Story()
    placements = {FOLDER: {"active": ("0_0", "0_1")}, NEWCOMER: {"active": ("0_2", "0_3")}}
    story.decide(placements, restored_sooner={"0_2": FOLDER, "0_3": FOLDER})
    assert story.lines[-1] == (
        f"2 tasks (0_2, 0_3) are restored on process {NEWCOMER[:8]}: no process had caught up, and one that has more "
        "of them would be later."
    )
    story.decide(placements, restored_sooner={"0_2": FOLDER})
    assert story.lines[-1].startswith(f"Task 0_2 is restored on process {NEWCOMER[:8]}: ")
