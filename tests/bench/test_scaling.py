"""The benchmark of live scaling: its measures on hand-made outputs, its rows, and a short run on a real broker."""

from __future__ import annotations

import json

import pytest

from bench.scaling import __main__ as program
from bench.scaling import plot
from bench.scaling.measures import (
    Outputs,
    Scaling,
    Steady,
    Window,
    back_ms,
    gap,
    is_back,
    moved_tasks,
    percentile,
    scaling,
    steady,
)
from bench.scaling.report import Result
from bench.scaling.scenario import Counts, Run

ROW = {
    "system",
    "records_per_partition",
    "event",
    "moved_gap_ms",
    "staying_gap_ms",
    "peak_latency_ms",
    "average_latency_ms",
    "duration_s",
}


def outputs(*triples):
    """Return a task's outputs: arrival, latency (None: repeated) and process of each."""
    series = Outputs()
    for arrived_ms, latency_ms, process in triples:
        series.add(arrived_ms, latency_ms, process)
    return series


def every_100_ms(begin_ms, end_ms, process, latency_ms=10.0):
    return [(at, latency_ms, process) for at in range(begin_ms, end_ms, 100)]


STAYS = outputs(*every_100_ms(0, 5_000, 0))
MOVES = outputs(
    *every_100_ms(0, 1_000, 0),
    # silent from 900 to 2,300; then what waited comes late, one output for the second time
    (2_300, 1_300.0, 1),
    (2_300, None, 1),
    (2_400, 800.0, 1),
    (2_500, 21.0, 1),
    *every_100_ms(2_600, 5_000, 1),
)
TASKS = {0: STAYS, 1: MOVES}
EVENT = Window("leave", 1_000, 4_000)


def test_a_percentile_is_the_nearest_rank():
    assert percentile([5.0, 1.0, 4.0, 2.0, 3.0], 50) == 3
    assert percentile([float(n) for n in range(1, 101)], 99) == 99
    assert percentile([7.0], 99) == 7


def test_a_gap_may_begin_before_its_window_and_end_behind_it():
    assert gap(MOVES, EVENT) == 1_400
    assert gap(MOVES, Window("early", 0, 900)) == 100
    assert gap(MOVES, Window("inside the gap", 1_500, 1_700)) == 1_400
    assert gap(STAYS, EVENT) == 100
    assert gap(STAYS, Window("after the last output", 6_000, 7_000)) == 0
    assert gap(outputs(), EVENT) == 0


def test_a_task_has_moved_when_another_process_writes_at_the_end():
    assert moved_tasks(TASKS, EVENT) == {1}
    there_and_back = outputs((0, 1.0, 0), (1_100, 1.0, 1), (1_200, 1.0, 0))
    assert moved_tasks({0: there_and_back}, EVENT) == frozenset()


def test_an_event_lasts_until_the_last_late_output():
    assert back_ms(TASKS, EVENT, limit_ms=20) == 2_500
    assert back_ms(TASKS, EVENT, limit_ms=1_000) == 2_300
    measured = scaling(TASKS, EVENT, steady_p99_ms=10)
    assert (measured.moved_gap_by_task_ms, measured.staying_gap_by_task_ms) == ({1: 1_400}, {0: 100})
    assert (measured.moved_median_ms, measured.peak_ms, measured.duration_s) == (1_400, 1_300, 1.5)
    of_stays = 16 * [10.0]  # 1,000 to 2,500
    assert measured.average_ms == pytest.approx(sum([*of_stays, 1_300, 800, 21]) / 19)


def test_an_event_without_late_outputs_lasts_until_moved_tasks_work():
    warm = outputs(*every_100_ms(0, 3_000, 0), *every_100_ms(3_000, 5_000, 1))
    measured = scaling({0: STAYS, 1: warm}, EVENT, steady_p99_ms=10)
    assert (measured.duration_s, measured.moved_gap_by_task_ms, measured.average_ms) == (2, {1: 100}, 10)


def test_an_event_that_nothing_notices_lasts_no_time():
    measured = scaling({0: STAYS}, EVENT, steady_p99_ms=10)
    assert (measured.duration_s, measured.moved_gap_by_task_ms, measured.moved_median_ms) == (0, {}, None)
    assert measured.average_ms == 10


def test_a_late_output_before_or_behind_the_window_does_not_count():
    edges = outputs((900, 500.0, 0), (1_000, 10.0, 0), (3_999, 10.0, 0), (4_000, 500.0, 0))
    measured = scaling({0: edges}, EVENT, steady_p99_ms=10)
    assert (measured.peak_ms, measured.duration_s) == (10, 0)


def test_the_steady_time_has_percentiles_of_all_tasks_and_the_longest_gap():
    slower = outputs(*every_100_ms(0, 1_000, 1, latency_ms=30.0))
    measured = steady({0: STAYS, 1: slower}, Window("steady", 0, 1_000))
    assert measured == Steady(p50_ms=10, p99_ms=30, gap_max_ms=100, peak_ms=30, average_ms=20)


def test_latency_is_back_when_every_task_answers_in_time():
    assert is_back(TASKS, 2_600, 4_000, limit_ms=20)
    assert not is_back(TASKS, 2_500, 4_000, limit_ms=20)
    assert not is_back(TASKS, 1_000, 2_000, limit_ms=20), "a task is silent"


RUN = Run(
    Steady(50.04, 99, 120, 130, 55),
    {"kill": Scaling({0: 10_600, 1: 10_400, 2: 10_500}, {}, 10_700, 2_600, 10.834)},
    [EVENT],
    Counts(inputs=1_000, lost=0, repeated=3, low=0),
    TASKS,
)


def test_rows_have_the_same_keys_and_null_where_there_is_nothing():
    at_rest, killed = Result("ours", 20_000, RUN).rows()
    assert at_rest.keys() == ROW | {"latency_ms"}
    assert killed.keys() == ROW
    assert (at_rest["moved_gap_ms"], at_rest["latency_ms"]) == (None, {"p50": 50.0, "p99": 99})
    assert killed["moved_gap_ms"] == {"median": 10_500, "max": 10_600}
    assert (killed["staying_gap_ms"], killed["duration_s"]) == (None, 10.83)


def test_the_gap_of_each_moved_task_is_logged():
    assert [*Result("ours", 20_000, RUN).moves()] == [
        "ours: kill: gaps of moved tasks: 0_0 10,600 ms, 0_1 10,400 ms, 0_2 10,500 ms"
    ]


def test_lost_inputs_are_reported_and_are_an_error():
    assert Result("ours", 20_000, RUN).counts() == (
        "ours, 20,000 records a partition: 1,000 inputs, 0 lost, 3 outputs repeated, 0 counts too low"
    )
    assert Result("ours", 20_000, RUN).correct
    lost = Run(RUN.steady, RUN.events, RUN.windows, Counts(1_000, 1, 0, 0), TASKS)
    assert not Result("ours", 20_000, lost).correct


def test_the_picture_has_a_panel_with_a_line_at_the_event(tmp_path):
    plot.write([("ours", RUN)], tmp_path / "latency.svg")
    svg = (tmp_path / "latency.svg").read_text()
    assert svg.startswith("<svg")
    assert all(text in svg for text in (">ours<", ">leave<", ">100 s<", "polyline"))
    assert plot.peaks(TASKS, 2_200, 2_600) == [(2_200, 1_300), (2_400, 800)]


def test_a_picture_of_another_kind_is_refused(capsys):
    with pytest.raises(SystemExit):
        program.parse(["--plot", "latency.png"])
    assert "--plot latency.png: must end in .svg or .html; png would need matplotlib" in capsys.readouterr().err


def test_a_short_run_has_a_row_for_each_event_and_loses_nothing(broker, tmp_path, capsys):
    assert program.run(broker, program.parse(["--quick", "--json"]), tmp_path) == 0
    printed = capsys.readouterr()
    rows = {row["event"]: row for row in json.loads(printed.out)}
    assert [*rows] == ["steady", "join", "leave", "drain", "kill"]
    assert all(row.keys() - {"latency_ms"} == ROW for row in rows.values())
    assert all(row["moved_gap_ms"]["max"] > 0 for event, row in rows.items() if event != "steady")
    assert rows["kill"]["peak_latency_ms"] > 3_000, "the group waits for the session of the killed process"
    assert " 0 lost, " in printed.err
