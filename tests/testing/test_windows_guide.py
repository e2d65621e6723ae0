"""``docs/how-to/windows.md``: its two programs count right, and their results do not depend on the size of batches."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import Record, Subtopology, Timer, TopologyTestDriver
from kstreams_assign.allowed_values import GUARANTEES
from tests.docs_site.pages import blocks
from tests.samples import examples

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
HOURS, SESSIONS = ((EXAMPLES / name).read_text(encoding="utf-8") for name in ("hourly_windows.py", "click_sessions.py"))
WHOLE = SESSIONS.replace("zip(clicks, ", "zip([*clicks], ")
"""A function that reads its batch to the end before it works on the first click."""
MINUTE_MS = 60_000
BEGIN_MS = 472_222 * 60 * MINUTE_MS
"""When an hour begins, in November 2023."""
BATCH_SIZES = [1, 2, 3, 1_000]

Records = Sequence[tuple[str, int]]
"""Keys, and times in minutes after ``BEGIN_MS``."""
Row = tuple[bytes | None, bytes | None, int]
"""Key, value and time of an output."""


class Played(NamedTuple):
    """What a program has made of its records."""

    results: list[Row]
    late: list[Row]
    timers: list[Timer]
    store: list[tuple[bytes, bytes]]


def module_of(program: str) -> ModuleType:
    module = ModuleType("guide")
    exec(compile(program, "guide", "exec", dont_inherit=True), vars(module))
    return module


def topology_of(program: str) -> list[Subtopology]:
    topology: list[Subtopology] = module_of(program).TOPOLOGY
    return topology


def play(
    program: str,
    records: Records,
    batch_size: int,
    guarantee: str = "at_least_once",
    *,
    one_by_one: bool = False,
    fails: bool = False,
) -> Played:
    topology = topology_of(program)
    (source,), (store,) = topology[0].sources, topology[0].stores
    times = [BEGIN_MS + minute * MINUTE_MS for _, minute in records]
    with TopologyTestDriver(topology, max_poll_records=batch_size, processing_guarantee=guarantee) as driver:
        if fails:
            driver.fail_next_commit()
        if one_by_one:
            for (key, _), time_ms in zip(records, times, strict=True):
                driver.pipe(source, key.encode(), b"home", time_ms)
        else:
            driver.pipe_many(source, [(key.encode(), b"home") for key, _ in records], times)
        results, late = (rows(driver.read(topic)) for topic in topology[0].sinks)
        kept = driver.store(store if isinstance(store, str) else store.name)
        return Played(results, late, driver.timers(), list(kept.range()))


def rows(records: Sequence[Record]) -> list[Row]:
    return [(record.key, record.value, record.timestamp_ms) for record in records]


def minutes(played: Played) -> list[tuple[object, ...]]:
    """Return the results: key, first and last minute of a session or first of an hour, and the count."""
    found: list[tuple[object, ...]] = []
    for key, value, _ in played.results:
        members = json.loads(value or b"")
        at = [(members[name] - BEGIN_MS) // MINUTE_MS for name in ("start_ms", "end_ms") if name in members]
        found.append(((key or b"").decode(), *at, members.get("orders") or members["clicks"]))
    return found


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_an_hour_counts_late_orders_within_grace_and_has_one_result(batch_size: int, guarantee: str) -> None:
    records = [
        ("ann", 0),
        ("ann", 59),
        ("bob", 69),
        ("ann", 30),  # late, within grace
        ("bob", 70),  # the end of the grace
        ("ann", 40),  # too late
        ("ann", 75),
        ("bob", 400),
        ("ann", 75),  # too late
    ]
    played = play(HOURS, records, batch_size, guarantee)
    assert minutes(played) == [("ann", 0, 3), ("ann", 60, 1), ("bob", 60, 2)]
    assert [time_ms for _, _, time_ms in played.results] == [BEGIN_MS + at * MINUTE_MS for at in (70, 130, 130)]
    assert played.late == [(b"ann", b"home", BEGIN_MS + at * MINUTE_MS) for at in (40, 75)]
    assert [timer.at_ms for timer in played.timers] == [BEGIN_MS + 430 * MINUTE_MS]
    assert len(played.store) == 1, "the others have expired"


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_a_session_ends_after_the_gap_and_has_one_result(batch_size: int, guarantee: str) -> None:
    records = [
        ("ann", 10),
        ("ann", 39),
        ("ann", 5),  # late, and within the gap before the session's begin
        ("bob", 60),
        ("ann", 68),
        ("bob", 90),  # the gap is over: another session
        ("ann", 98),  # the same
        ("ann", 60),  # late: of the session that has ended
        ("eve", 60),  # late, without a session
        ("bob", 500),
    ]
    played = play(SESSIONS, records, batch_size, guarantee)
    assert minutes(played) == [("bob", 60, 60, 1), ("ann", 5, 68, 4), ("bob", 90, 90, 1), ("ann", 98, 98, 1)]
    assert [time_ms for _, _, time_ms in played.results] == [BEGIN_MS + at * MINUTE_MS for at in (90, 98, 120, 128)]
    assert [key for key, _, _ in played.late] == [b"ann", b"eve"]
    assert [timer.key for timer in played.timers] == [b"bob"]
    assert [key for key, _ in played.store] == [b"bob"]


RECORDS = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "eve"]), st.integers(-90, 90)), min_size=1, max_size=40
).map(lambda steps: [(key, 20 * number + step) for number, (key, step) in enumerate(steps, 5)])
"""Records that come up to an hour and a half early or late."""


@pytest.mark.parametrize("program", [HOURS, SESSIONS], ids=["hours", "sessions"])
@settings(max_examples=examples(60))
@given(records=RECORDS, guarantee=st.sampled_from(GUARANTEES))
def test_the_results_do_not_depend_on_the_size_of_batches(program: str, records: Records, guarantee: str) -> None:
    one_by_one = play(program, records, 1_000, guarantee, one_by_one=True)
    for batch_size in BATCH_SIZES:
        assert play(program, records, batch_size, guarantee) == one_by_one
    assert play(program, records, 1_000, "exactly_once_v2", fails=True) == one_by_one


ONE_USER = [("ann", 60 * number) for number in range(20)]


@pytest.mark.parametrize("batch_size", [1, 1_000])
def test_each_of_a_users_sessions_is_reported_though_their_own_clicks_move_the_clock(batch_size: int) -> None:
    assert minutes(play(SESSIONS, ONE_USER, batch_size)) == [("ann", 60 * n, 60 * n, 1) for n in range(19)]


def test_a_function_that_reads_its_batch_to_the_end_first_joins_sessions() -> None:
    assert WHOLE != SESSIONS
    assert minutes(play(WHOLE, ONE_USER, 1)) == minutes(play(SESSIONS, ONE_USER, 1))
    assert minutes(play(WHOLE, ONE_USER, 1_000)) == [("ann", 0, 15 * 60, 16)], "the first batch has 16 records"


def test_a_ttl_that_is_too_short_loses_hours() -> None:
    wrong = HOURS.replace("ttl_ms=2 * HOUR_MS", "ttl_ms=HOUR_MS")
    assert wrong != HOURS
    assert minutes(play(wrong, [("ann", 5), ("bob", 400)], 1_000)) == []


def test_a_session_that_the_next_click_ends_has_nothing_of_that_click() -> None:
    with TopologyTestDriver(topology_of(SESSIONS)) as driver:
        for minute in (0, 60):
            driver.pipe("page-clicks", b"ann", b"", BEGIN_MS + minute * MINUTE_MS, headers=[("page", b"home")])
        (ended,) = driver.read("click-sessions")
    assert (ended.timestamp_ms, ended.headers) == (BEGIN_MS + 30 * MINUTE_MS, None)


(GUIDE,) = [block.text for block in blocks("docs/how-to/windows.md") if block.verb == "run by"]


def run_guide() -> None:
    module_of(GUIDE).test_the_sessions_do_not_depend_on_the_size_of_batches()


def test_the_guides_test_passes_beside_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "click_sessions", module_of(SESSIONS))
    run_guide()


def test_the_guides_test_fails_if_a_batch_is_read_to_its_end_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "click_sessions", module_of(WHOLE))
    with pytest.raises(AssertionError):
        run_guide()
