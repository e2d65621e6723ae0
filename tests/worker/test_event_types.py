"""One list has every event: each is reported somewhere, described in the reference, and the same in JSON as ever.

mypy proves the names and the fields of what is reported; the tests with a broker compare the values
(``described.refuse_wrong_types``).
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import kstreams_assign
from kstreams_assign import events, reference
from kstreams_assign.events import (
    EVENTS,
    AssignedEvent,
    ClosedEvent,
    RestorePace,
    StateWipedEvent,
    StatusEvent,
    TaskStatus,
    TaskStoppedEvent,
)
from tests.worker.described import refuse_wrong_types, sample

ROOT = Path(kstreams_assign.__file__).parent
NAMES = {kind.__name__ for kind in EVENTS}

JSON_FIELDS = {
    "joining": "reason",
    "assigned": "generation assignor active standby warmup next_probe_ms follow_up version warnings epoch",
    "adopted": "generation left came",
    "lost": "reason",
    "decision": (
        "kind assignor assignor_version members placements changed adopted owner_changes_lower_bound withheld "
        "waiting wait_ends_ms restored_sooner next_probe_ms error record_bytes warnings seconds"
    ),
    "early_probe": "reason moves standbys",
    "early_probing_off": "warnings",
    "progress_unreadable": "warnings",
    "stalled": "warnings",
    "predecessor_removed": "members",
    "predecessor_stays": "reason",
    "member_not_kept": "warnings",
    "warming_up": "tasks leavers joiners",
    "no_room": "warnings tasks",
    "warm_join": "reason",
    "warm_join_alone": "warnings",
    "warming_elsewhere": "tasks away",
    "warm_leave": "reason warm cold",
    "warm_leave_off": "warnings",
    "awaited_tasks": "awaited missing",
    "group_status": "warnings",
    "drain_refused": "warnings",
    "shutdown_refused": "warnings",
    "restart_announced": "awaited",
    "shutdown_requested": "reason",
    "leave_failed": "reason",
    "status": "generation next_probe_ms records_total tasks restoring",
    "restoring": "tasks remaining offsets_per_s left_s",
    "running": "task positions restored",
    "first_record": "task offset partition",
    "batch_limited": "limit records",
    "task_failed": "task reason pause_ms",
    "task_stopped": "task reason retry_ms",
    "task_paused": "task since_ms",
    "task_resumed": "task",
    "store_discarded": "task reason",
    "store_wiped": "task reason",
    "function_failed": "task partition offset records reason call",
    "record_set_aside": "task partition offset response reason call",
    "store_failed": "task reason",
    "input_out_of_range": "reason reset",
    "waiting_for_transactions": "transactions warnings",
    "global_table_reading": "table topic remaining offsets_per_s left_s",
    "global_table_ready": "table topic offsets",
    "global_table_stopped": "reason table retry_ms",
    "global_table_rebuilt": "reason table",
    "commit_deferred": "reason",
    "offsets_dropped": "warnings partitions",
    "commit_refused": "reason",
    "delivery_failed": "reason warnings",
    "transaction_aborted": "reason tasks",
    "transaction_restarted": "reason tasks",
    "client_hung": "warnings",
    "purge_failed": "warnings",
    "broker_unavailable": "reason",
    "lookup_failed": "what reason",
    "warnings": "warnings",
    "state_wiped": "tasks",
    "state_dir_made_anew": "path",
    "listening": "socket",
    "session_began": "",
    "session_ended": "uncommitted",
    "http_listening": "url warnings",
    "http_failed": "warnings",
    "query_listening": "address endpoint",
    "query_failed": "warnings",
    "closed": "error",
}
"""Event -> its own fields in JSON, in order. Other programs read them: a change here needs a line in CHANGELOG.md."""


def test_the_fields_in_json_and_their_order_are_a_contract():
    in_json = {kind.name: [*sample(kind).as_dict()] for kind in EVENTS}
    assert in_json == {
        name: ["time_ms", "event", "process_id", *fields.split()] for name, fields in JSON_FIELDS.items()
    }
    assert len(EVENTS) == len(in_json), "two events have one name"


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.name)
def test_json_can_hold_every_event(kind):
    in_json = sample(kind).as_dict()
    assert json.loads(json.dumps(in_json)) == in_json
    assert in_json["event"] == kind.name


def test_values_in_events_are_arrays_and_objects_in_json():
    status = StatusEvent(
        time_ms=1,
        process_id="p",
        generation=None,
        next_probe_ms=None,
        records_total=5,
        tasks={"0_1": TaskStatus(role="active", state="running", lag=0)},
        restoring={"0_1": RestorePace(remaining=3, offsets_per_s=None, left_ms=None)},
    )
    assert json.dumps(status.as_dict()) == (
        '{"time_ms": 1, "event": "status", "process_id": "p", "generation": null, "next_probe_ms": null, '
        '"records_total": 5, "tasks": {"0_1": {"role": "active", "state": "running", "lag": 0}}, '
        '"restoring": {"0_1": {"remaining": 3, "offsets_per_s": null, "left_ms": null}}}'
    )
    assert sample(AssignedEvent).as_dict()["active"] == ["text"]


def test_the_page_shows_an_event_as_json_has_it():
    page = (ROOT.parent / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```json\n(.+?)```", page, re.DOTALL)
    event = TaskStoppedEvent(
        time_ms=1_800_000_000_000,
        process_id="5c7ff2e1-1111-4111-8111-111111111111",
        task="0_3",
        reason="the disk is full",
        retry_ms=1_000,
    )
    assert " ".join(shown.split()) == json.dumps(event.as_dict())


def test_every_event_that_is_declared_is_in_the_list_and_can_be_imported():
    modules = [import_module(f"{events.__name__}.{module.name}") for module in iter_modules(events.__path__)]
    declared = {
        kind.__name__
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and "name" in vars(kind)
    }
    assert declared == NAMES
    assert set(events.__all__) >= NAMES


def test_every_event_is_reported_somewhere():
    texts = [path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py") if path.parent.name != "events"]
    made = {
        ast.unparse(node.func).rpartition(".")[2]
        for text in texts
        if any(f"{name}(" in text for name in NAMES)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    }
    assert NAMES - made == set()


def test_the_reference_describes_every_event_and_every_field():
    described = {each.event: each for each in reference.events()}
    assert described.keys() == {kind.name for kind in EVENTS}
    for each in [*described.values(), *reference.event_values()]:
        assert each.when.endswith("."), each
        assert [field.name for field in each.fields if not field.description] == [], each.type
    own = {name: [field.name for field in each.fields][2:] for name, each in described.items()}
    assert own == {name: fields.split() for name, fields in JSON_FIELDS.items()}


@pytest.mark.parametrize(
    "event",
    [
        {"event": "closed"},
        ClosedEvent(error=1),
        replace(ClosedEvent(error=None), time_ms=None),
        replace(ClosedEvent(error=None), time_ms=True),
        StateWipedEvent(tasks=["0_1"]),
        StateWipedEvent(tasks=(1,)),
        replace(sample(StatusEvent), tasks={"0_1": {"role": "active", "state": "running", "lag": 0}}),
    ],
)
def test_an_event_with_values_of_other_types_is_noticed(event):
    with pytest.raises(AssertionError):
        refuse_wrong_types(event)


def test_a_listener_matches_events_by_type():
    event = TaskStoppedEvent(task="0_1", reason="the disk is full", retry_ms=1_000)
    match event:
        case TaskStoppedEvent(task=task, retry_ms=retry_ms):
            assert (task, retry_ms) == ("0_1", 1_000)
        case _:
            pytest.fail("not matched")
    with pytest.raises(AttributeError):
        event.task = "0_2"
