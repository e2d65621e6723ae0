"""Tables fit a terminal of 80 columns, that of ``inspect`` one of 40, and no cell is cut."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from kstreams_assign.insight.fitted import Fitted
from kstreams_assign.insight.show import CELL_TASKS, show
from kstreams_assign.insight.topics import topic_table
from kstreams_assign.insight.what_if_table import table
from kstreams_assign.observe.alternatives import Row
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.settings import settings_of
from kstreams_assign.observe.topology import inferred_topology
from kstreams_assign.observe.what_if import predict
from tests.observe.seen_group import scaled_out
from tests.observe.test_what_if import at_rest

WIDTH = 80


def lines_of(picture: RenderableType, width: int = WIDTH) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(picture)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    borders = [line for line in lines if line[:1] in set("│┃╭├╰┏┡")]
    cut = [line for line in borders if line.rstrip()[-1] not in "│┃╮┤╯┓┩"]
    assert cut == [], "the terminal would cut the table"
    return lines


def words_of(lines: list[str]) -> str:
    """Return all cells, each column read downwards and without spaces, as a cell may be folded anywhere."""
    columns: dict[int, str] = {}
    for line in lines:
        for number, cell in enumerate(re.split("[│┃]", line)[1:-1]):
            columns[number] = columns.get(number, "") + cell.strip()
    return " ".join(columns.values()).replace(" ", "")


@pytest.mark.parametrize("height", [6, 24, 400])
def test_what_is_repeated_in_place_begins_with_the_sentences_and_counts_what_does_not_fit(height: int) -> None:
    """The table comes last: a terminal cuts its end, and says so."""
    decoded = decode_group(scaled_out(members=6, partitions=12).snapshot())
    about = describe(ObservedGroup(decoded, inferred_topology(decoded), settings_of(decoded, {})))
    picture = show(about, table_last=True)
    console = Console(width=WIDTH, height=height, color_system=None)
    with console.capture() as captured:
        console.print(Fitted(picture))
    lines, whole = captured.get().splitlines(), lines_of(picture)
    assert len(lines) == min(height, len(whole))
    if len(whole) > height:
        assert lines[: height - 1] == whole[: height - 1]
        assert lines[-1].startswith(f"{len(whole) - height + 1} more lines: make the terminal higher")
    else:
        assert lines == whole
    table_at = next(number for number, line in enumerate(whole) if line.startswith("╭"))
    assert any("probing" in line for line in whole[:table_at])


def test_what_if_of_a_large_group() -> None:
    figures = {"lower_bound": 12_345, "rounds": 1_999, "rebalances": 3_998, "extra_replicas": 10_001}
    figures |= {"owner_changes": 99_999, "tasks_without_standby": 54_321, "cold": 23_456}
    change = Alternative(add=1_000, settings={"acceptable_recovery_lag": 123_456, "max_warmup_replicas": 1_000})
    outcome = replace(predict(at_rest(4, 2), Alternative()), alternative=change, seconds=2_674_800.0, **figures)
    rows = [
        Row(outcome, (12_345, 98_765)),
        Row(replace(outcome, converged=False)),
        Row(replace(outcome, seconds=None, seconds_at_least=3_599.0)),
    ]
    lines = lines_of(table("app: 4 tasks", Row(outcome), rows, {}, {"changelogs": "do not grow " * 20}))
    text = "\n".join(lines)
    shown = ("12,345-98,765", "12,345", "1,999", "3,998", "10,001", "54,321", "23,456", "30 d 23 h", "> 59 min 59 s")
    for figure in (*shown, "not at rest", "> 1,999", "add 1000, acceptable_recovery_lag = 123456"):
        assert figure in text


@pytest.mark.parametrize("width", [40, 50, WIDTH])
@pytest.mark.parametrize("long", [False, True], ids=["short names", "long names"])
@pytest.mark.parametrize("partitions", [2, 30])
def test_inspect(partitions: int, long: bool, width: int) -> None:
    snapshot = scaled_out(partitions=partitions).snapshot()
    name = "orders-application-stream-thread-client" * 3 if long else "c"
    members = tuple(
        replace(member, client_id=f"{name}-{number}", client_host=f"/{name}.example.internal")
        for number, member in enumerate(snapshot.members)
    )
    decoded = decode_group(replace(snapshot, members=members))
    about = describe(ObservedGroup(decoded, inferred_topology(decoded), settings_of(decoded, {})))
    lines = lines_of(show(about, assumptions=True), width)
    assert len(lines_of(show(about), width)) < len(lines)
    words = words_of(lines)
    for number, process in enumerate(decoded.processes):
        assert f"{name}-{number}" in words
        for tasks in (process.active, process.standby, process.warmup or ()):
            assert all(str(task) in words for task in sorted(tasks)[:CELL_TASKS])


def test_a_list_of_topics_with_the_longest_name() -> None:
    name = "a" * 249
    lines = lines_of(topic_table([{"name": name, "partitions": 10_000, "records": 10**15}]))
    words = words_of(lines)
    assert all(cell in words for cell in (name, "10,000", "1,000,000,000,000,000"))
