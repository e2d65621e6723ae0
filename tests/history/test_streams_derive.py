"""Records of streams groups become rows: the same as a slow reading of all of them finds, whatever the batches are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.history.derive import derive
from kstreams_assign.history.tables import COLUMNS, joined_tables
from tests.history.groups import rows
from tests.history.streams_coordinator import TASKS, A, B, C, Coordinator, Record, columns, derived
from tests.history.streams_twin import expected
from tests.samples import examples

COMPARED = {
    "rebalances": (
        *("generation", "offsets_offset", "state", "members", "processes", "began_ms", "owner_changes", "adopted"),
    ),
    "task_placements": ("generation", "offsets_offset", "task", "role", "process_id", "member_id"),
    "movements": (
        *("generation", "offsets_offset", "task", "from_process", "to_process", "planned", "held_ms", "gap_ms"),
        *("released_ms", "taken_ms"),
    ),
}

OPERATIONS = (
    *("join", "join", "leave", "beat", "beat", "beat", "settle", "settle"),
    *("commit", "commit", "commit", "commit", "wait", "wait", "rewrite", "delay", "delete", "set offsets"),
)
WAITS_MS = (5_000, 20_000, 45_000, 61_000, 200_000, 700_000)
CLOCK_SET_BACK_MS = (-5_000, -61_000, -700_000)


def compared(tables) -> dict[str, list[tuple]]:
    return {
        name: sorted(tuple(row[column] for column in wanted) for row in rows(tables, name))
        for name, wanted in COMPARED.items()
    }


def played(seed: int, waits_ms: Sequence[int] = WAITS_MS) -> list[Record]:
    """The records of a random life."""
    chance = Random(seed)
    coordinator = Coordinator(chance)
    for _ in range(chance.randrange(5, 100)):
        play(coordinator, chance, waits_ms)
    return coordinator.records or played(seed + 1, waits_ms)


def play(coordinator: Coordinator, chance: Random, waits_ms: Sequence[int]) -> None:
    coordinator.wait(chance.randrange(10, 400))
    name, members = chance.choice(OPERATIONS), sorted(coordinator.members)
    if name == "join" and len(members) < 5:
        coordinator.join(chance.choice((A, B, C)))
    elif name == "delete" and not members and coordinator.epoch:
        coordinator.delete()
    elif name == "set offsets" and not members and coordinator.epoch:
        coordinator.set_offsets(chance.sample(TASKS, chance.randrange(1, 7)))
    elif name == "wait":
        coordinator.wait(chance.choice(waits_ms))
    elif name == "settle":
        coordinator.settle()
    elif name == "delay":
        coordinator.assigning = not coordinator.assigning
    elif members:
        play_member(coordinator, chance, name, chance.choice(members))


def play_member(coordinator: Coordinator, chance: Random, name: str, member: str) -> None:
    match name:
        case "leave":
            coordinator.remove(member)
        case "beat":
            coordinator.beat(member)
        case "commit":
            coordinator.commit(member, chance.sample(TASKS, chance.randrange(1, 7)))
        case "rewrite":
            coordinator.write_tasks(member)
            coordinator.write_epoch()
            coordinator.describe(member)
            if coordinator.target_epoch:
                coordinator.write_target_epoch()


seeds = st.integers(0, 2**32)
several = settings(deadline=None, max_examples=examples(150))


@several
@given(seed=seeds)
def test_the_rows_are_those_of_a_slow_reading_of_all_records(seed):
    records = played(seed)
    tables = derived(records)
    assert compared(tables) == expected(records)
    assert rows(tables, "quarantine") == []


@several
@given(seed=seeds)
def test_the_rows_are_those_of_a_slow_reading_also_where_clocks_are_set_back(seed):
    records = played(seed, (*WAITS_MS, *CLOCK_SET_BACK_MS))
    tables = derived(records)
    assert compared(tables) == expected(records)
    moves = rows(tables, "movements")
    assert all(row[column] is None or row[column] >= 0 for row in moves for column in ("held_ms", "gap_ms"))


def test_random_lives_have_every_kind_of_rebalance_and_movement():
    states, moves = set(), set()
    for seed in range(60):
        tables = derived(played(seed))
        states |= {row["state"] for row in rows(tables, "rebalances")}
        moves |= {
            (row["planned"], row["held_ms"] is not None, row["gap_ms"] is not None) for row in rows(tables, "movements")
        }
        if len(states) == 3 and len(moves) == 8:
            break
    assert states == {"stable", "reconciling", "empty"}
    assert len(moves) == 8


@several
@given(seed=seeds, data=st.data())
def test_where_one_batch_ends_makes_no_difference(seed, data):
    records = played(seed)
    whole_state, whole = derive(None, columns(records))
    state, parts = None, []
    cuts = sorted(data.draw(st.sets(st.integers(0, len(records)), max_size=12)) | {0, len(records)})
    for start, end in pairwise(cuts):
        state, tables = derive(state, columns(records[start:end]))
        parts.append(tables)
    assert {name: rows(joined_tables(parts), name) for name in COLUMNS} == {name: rows(whole, name) for name in COLUMNS}
    assert state == whole_state


@several
@given(seed=seeds, data=st.data())
def test_a_damaged_record_is_one_line_of_the_quarantine_and_changes_no_other_row(seed, data):
    records = played(seed)
    spoilt = []
    for at in data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1, max_size=4)):
        record = records[at]
        bad = data.draw(st.sampled_from([b"", b"\0", b"\0\x09future", (record.value or b"\0\0")[:-1]]))
        spoilt.append(record._replace(offset=record.offset - 1, value=bad))
    tables, whole = derived(sorted([*records, *spoilt])), derived(records)
    for name in COLUMNS.keys() - {"quarantine", "counts"}:
        assert rows(tables, name) == rows(whole, name)
    found = rows(tables, "quarantine")
    assert [(row["offsets_offset"], row["kind"]) for row in found] == [
        (record.offset, "damaged_value") for record in sorted(spoilt)
    ]
    assert all("\n" not in row["reason"] and row["reason"] for row in found)


@several
@given(seed=seeds, data=st.data())
def test_records_that_are_lost_or_cut_end_nothing(seed, data):
    """Also one whose value is damaged in place: the rest is derived, with every column filled."""
    records = played(seed)
    kept = [record for record in records if data.draw(st.integers(0, 9)) > 0]
    cut = [record._replace(value=record.value and record.value[: data.draw(st.integers(3, 90))]) for record in kept[:3]]
    tables = derived([*cut, *kept[3:]])
    assert {name: tuple(table) for name, table in tables.items()} == COLUMNS
    assert all(len({len(column) for column in table.values()}) == 1 for table in tables.values())
