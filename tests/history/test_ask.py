"""``history ask``: each question's SQL beside plain loops, what it sees, and how an answer is shown."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from random import Random
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet
from rich.console import Console

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.ask.answer import TABLES, Asked, answer, answer_from, script
from kstreams_assign.history.ask.formats import Format, as_csv, as_json
from kstreams_assign.history.ask.questions import BY_SQL, QUESTIONS, SAVINGS
from kstreams_assign.history.ask.savings import CHANGES, STANDBY, compare_savings
from kstreams_assign.history.ask.show import draw, picture, write
from kstreams_assign.history.fleet import FleetAnswer, Ranked, what_if
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.schemas import SCHEMAS
from kstreams_assign.history.tables import COLUMNS, joined_tables
from kstreams_assign.history.times import DAY_MS, MINUTE_MS
from kstreams_assign.wire import decode_group_metadata
from tests.history.ask_twin import TWINS
from tests.history.groups import JAVA, OURS, RecordedGroup, changed
from tests.history.groups import derived as derived_from_records
from tests.history.groups import group as played_group
from tests.history.groups import rows as rows_of
from tests.history.report_data import NOON_MS, Story, derived, write_tables
from tests.samples import sample

CAUSES = ("join", "leave", "replace", "follow_up", "probe", "rejoin", None)
ALL_DAYS = 10_000


def random_rows(seed: int) -> dict[str, list[dict[str, object]]]:
    """A history of a few groups that no derivation would write: every column that may be null is, now and then."""
    random = Random(seed)
    rows: dict[str, list[dict[str, object]]] = {table: [] for table in TABLES}
    for group in random.sample(["orders", "bills", "it's", "größe"], random.randint(1, 3)):
        now_ms = NOON_MS
        for generation in range(random.randint(1, 12)):
            now_ms += random.choice([0, 1_000, 5 * MINUTE_MS, 11 * MINUTE_MS, 600_000, 40 * MINUTE_MS])
            add_generation(rows, random, (group, generation, random.randint(0, 1), generation * 3, now_ms))
    return rows


def add_generation(rows, random, place):
    def processes():
        return random.choice([None, [], random.sample("abcd", random.randint(1, 3))])

    def add(table, **values):
        rows[table].append(
            {**dict.fromkeys(COLUMNS[table]), **dict(zip(COLUMNS[table], place, strict=False)), **values}
        )

    gone = processes()
    joined = processes()
    joined = joined and [process for process in joined if process not in (gone or ())]
    add("rebalances", cause=random.choice(CAUSES), joined=joined, gone=gone, processes=random.randint(1, 6))
    for number in range(random.randint(0, 3)):
        process, host = random.choice([None, *"abcd"]), random.choice(["h1", "h2", None])
        add("members", member_id=f"m{number}", process_id=process, client_host=host)
    for number in range(random.randint(0, 4)):
        add(
            "movements",
            task=f"0_{number}",
            from_process=random.choice("abcd"),
            to_process=random.choice("abcd"),
            planned=random.random() < 0.5,
            warm=random.choice([True, False, None]),
            gap_ms=random.choice([None, 0, random.randint(1, 90_000)]),
        )
        for topic in random.sample(["t-a-changelog", "t-b-changelog"], random.randint(0, 2)):
            task = random.choice([None, f"0_{number}", f"0_{number}"])
            add(
                "end_offsets",
                task=task,
                topic=topic,
                partition=number,
                begin_offset=5,
                end_offset=random.randint(5, 900),
            )


def as_tables(rows):
    days = {
        table: [datetime.fromtimestamp(row["time_ms"] / 1000, UTC).date() for row in listed]
        for table, listed in rows.items()
    }
    return {
        table: pa.Table.from_pylist(rows[table], schema=SCHEMAS[table]).append_column(
            "day", pa.array(days[table], type=pa.date32())
        )
        for table in TABLES
    }


ROW_QUESTIONS = [question.name for question in BY_SQL]


def ask(tables, asked):
    (found,) = answer_from(tables, asked, [asked.question])
    return found


@pytest.mark.parametrize("name", ROW_QUESTIONS)
def test_the_sql_finds_what_plain_loops_find(name):
    for seed in sample(range(40), 8):
        rows = random_rows(seed)
        found = ask(as_tables(rows), Asked(Path(), QUESTIONS[name], days=ALL_DAYS))
        assert close(found.rows) == close(TWINS[name](rows)), seed
        assert found.sentence.endswith(".")


def close(rows):
    """Rows whose figures may differ in the last bits."""
    return [
        {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()} for row in rows
    ]


def test_a_silence_after_a_rebalance_of_unknown_cause_is_not_blamed_on_an_earlier_one():
    """Neither is that of the follow-up and the probe that go on with it."""
    rows = {table: [] for table in TABLES}
    for generation, cause in enumerate(["join", None, "follow_up", "probe"], 1):
        place = dict(zip(COLUMNS["rebalances"], ("orders", generation, 0, generation, NOON_MS), strict=False))
        rows["rebalances"].append({**dict.fromkeys(COLUMNS["rebalances"]), **place, "cause": cause})
        gap_ms = None if cause == "join" else 1_000
        rows["movements"].append({**dict.fromkeys(COLUMNS["movements"]), **place, "gap_ms": gap_ms})
    found = ask(as_tables(rows), Asked(Path(), QUESTIONS["costly-groups"]))
    assert [(row["main_cause"], row["main_cause_s"]) for row in found.rows] == [("unknown", 3.0)]
    assert found.sentence.endswith("100% of it after rebalances of unknown cause.")


@pytest.mark.parametrize("name", ROW_QUESTIONS)
def test_a_question_sees_its_time_and_its_group_alone(name):
    for seed in sample(range(15), 4):
        rows = random_rows(seed)
        until_ms = NOON_MS + 60 * MINUTE_MS
        asked = Asked(Path(), QUESTIONS[name], days=1, until_ms=until_ms, group=rows["rebalances"][0]["group"])
        seen = {
            table: [
                row for row in listed if row["group"] == asked.group and until_ms - DAY_MS < row["time_ms"] <= until_ms
            ]
            for table, listed in rows.items()
        }
        assert close(ask(as_tables(rows), asked).rows) == close(TWINS[name](seen)), seed


def test_a_question_looks_back_from_the_newest_rebalance():
    rows = random_rows(1)
    found = ask(as_tables(rows), Asked(Path(), QUESTIONS["deployments"]))
    newest = max(row["time_ms"] for row in rows["rebalances"])
    assert (found.span.since_ms, found.span.until_ms) == (newest - DAY_MS, newest)


def test_an_unknown_group_is_named_with_those_that_are_there():
    with pytest.raises(ConfigError, match=r"--group 'order' is in no table; the tables have .* such as 'orders'"):
        ask(as_tables(random_rows(6)), Asked(Path(), QUESTIONS["deployments"], group="order"))


def test_tables_without_rows_have_an_answer():
    tables = as_tables({table: [] for table in TABLES})
    answers = {name: ask(tables, Asked(Path(), question)) for name, question in QUESTIONS.items()}
    del answers[SAVINGS.name]
    assert {name: found.sentence for name, found in answers.items()} == {
        "costly-groups": "No group rebalanced.",
        "leaving-processes": "No process left.",
        "slow-changelogs": "No task is known to have moved cold with a silence.",
        "deployments": "No deployment is to be seen: no group changed half of its processes.",
    }


# --- what a deployment is ---------------------------------------------------------------------

SIX = [UUID(int=number) for number in range(1, 7)]


def six_processes() -> RecordedGroup:
    """Six processes with two threads each, long enough after their start."""
    recorded = RecordedGroup(played_group(JAVA, partitions=12), JAVA)
    recorded.start(*SIX, threads=2)
    recorded.rebalance()
    recorded.rebalance(3_600_000)
    return recorded


def changed_in_deployments(records) -> list[int]:
    tables = derived_from_records(records)
    asked = Asked(Path(), QUESTIONS["deployments"])
    return [row["changed"] for row in ask(as_tables({table: rows_of(tables, table) for table in TABLES}), asked).rows]


@pytest.mark.parametrize(("replaced", "changes"), [(2, []), (3, [3]), (6, [6])])
def test_a_process_that_is_replaced_by_one_with_another_id_is_one_change(replaced, changes):
    recorded = six_processes()
    for process in SIX[:replaced]:
        recorded.played.stop(process)
        recorded.start(UUID(int=process.int + 100), threads=2)
        recorded.rebalance(MINUTE_MS)
    assert changed_in_deployments(recorded.records()) == changes


@pytest.mark.parametrize(
    ("restarted", "changes"), [([0, 0, 0, 0], []), ([0, 1], []), ([0, 1, 2], [3]), ([0, 1, 0, 2, 1], [3])], ids=str
)
def test_a_process_that_comes_back_is_one_change_however_often_it_does(restarted, changes):
    recorded = six_processes()
    for number in restarted:
        recorded.start(SIX[number], threads=2)
        recorded.rebalance(MINUTE_MS)
    assert [row["cause"] for row in recorded.rows("rebalances")][2:] == ["replace"] * len(restarted)
    assert changed_in_deployments(recorded.records()) == changes


def test_threads_that_leave_join_or_are_replaced_make_no_deployment():
    """One of two threads of each process is replaced at once, then leaves, and another joins."""
    records = six_processes().records()
    last = records[-1]
    members = list(decode_group_metadata(last.value).members)
    for at in range(1, 12, 2):
        for there in ([thread(members[at], 1)], [], [thread(members[at], 2)]):
            number = len(records)
            now = [*members[:at], *there, *members[at + 1 :]]
            moment = changed(last, generation=number + 1, members=tuple(now))
            records.append(moment._replace(time_ms=last.time_ms + number))
        members = now
    causes = [row["cause"] for row in rows_of(derived_from_records(records), "rebalances")]
    assert causes[2:] == ["replace", "leave", "join"] * 6
    assert changed_in_deployments(records) == []


def thread(member, number: int):
    return replace(member, member_id=f"{member.member_id} {number}")


# --- what a process leaves behind -----------------------------------------------------------------


@pytest.mark.parametrize("starting", [[2], [1, 2]], ids=["another", "it and another"])
@pytest.mark.parametrize("kind", [OURS, JAVA], ids=["ours", "java"])
def test_the_tasks_of_the_last_process_are_silent_until_there_is_another(kind, starting):
    """Until then the group is empty, so its tasks move in a later generation, also if it comes back."""
    recorded = RecordedGroup(played_group(kind, stateless=False), kind)
    recorded.start(SIX[0])
    recorded.rebalance()
    recorded.commit()
    recorded.played.stop(SIX[0])
    recorded.rebalance(MINUTE_MS)
    recorded.start(*(UUID(int=number) for number in starting))
    recorded.rebalance(MINUTE_MS)
    recorded.commit()
    left = recorded.rows("movements")
    silent_s = sum(move["gap_ms"] or 0 for move in left) / 1000
    recorded.start(SIX[2])
    recorded.settle()
    recorded.commit()
    tables = {table: recorded.rows(table) for table in TABLES}
    (row,) = ask(as_tables(tables), Asked(Path(), QUESTIONS["leaving-processes"])).rows
    assert len(tables["movements"]) > len(left) > 0
    assert (row["process_id"], row["moves"], row["silent_s"] or 0) == (str(SIX[0]), len(left), silent_s)
    assert bool(silent_s) == (starting == [2])


# --- a folder of tables -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A group of three processes, of which one leaves and comes back, with an hour between."""
    story = Story({"inputs": 6})
    for number in range(3):
        story.start(number)
        story.rebalance()
        story.settle(6)
    story.group.wait(3_600_000)
    story.stop(1)
    story.rebalance()
    story.settle(6)
    story.start(1)
    story.rebalance()
    story.settle(6)
    return write_tables(tmp_path_factory.mktemp("ask"), derived("orders", story))


def test_a_process_that_left_and_came_back_is_found(folder):
    found = answer(Asked(folder, QUESTIONS["leaving-processes"]))
    (row,) = found.rows
    assert (row["group"], row["departures"], row["returns"]) == ("orders", 1, 1)
    assert row["moves"] > 0
    assert row["away_s"] > 0
    assert found.sentence == "1 process left, none of them twice."


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_printed_script_asks_the_same(folder, name):
    asked = Asked(folder, QUESTIONS[name], days=ALL_DAYS, group="orders")
    extension = files("duckdb_extension_delta") / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    offered, _, text = script(asked).partition("load delta;\n")
    assert offered == "install delta;\n"
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        assert connection.execute(text).to_arrow_table().to_pylist() == answer(asked).rows


def test_every_format_has_the_rows(folder, tmp_path, capsys):
    found = answer(Asked(folder, QUESTIONS["costly-groups"]))
    facts = json.loads(as_json(found))
    assert (facts["question"], facts["answer"]) == ("costly-groups", found.sentence)
    assert facts["rows"] == found.rows
    (line,) = csv.DictReader(io.StringIO(as_csv(found)))
    assert line == {name: "" if value is None else str(value) for name, value in found.rows[0].items()}
    write(found, Format.PARQUET, tmp_path / "new" / "rows.parquet")
    assert parquet.read_table(tmp_path / "new" / "rows.parquet").to_pylist() == found.rows
    write(found, Format.TEXT, tmp_path / "rows.txt")
    write(found, Format.TEXT, None)
    for text in ((tmp_path / "rows.txt").read_text(), capsys.readouterr().out):
        assert "orders" in text
        assert "Which groups lost most time" in text


@pytest.mark.parametrize("width", [60, 80, 132])
def test_a_terminal_shows_each_value_whole_however_narrow_it_is(folder, width):
    found, text = answer(Asked(folder, QUESTIONS["leaving-processes"])), io.StringIO()
    console = Console(file=text, width=width)
    console.print(picture(found, console))
    words = {word.rstrip(":,") for word in text.getvalue().split()}
    (row,) = found.rows
    assert {"orders", row["process_id"], f"{row['last_left']:%Y-%m-%d}", f"{row['last_left']:%H:%M:%S}"} <= words


def test_times_are_text_with_their_zone(folder):
    rows = json.loads(as_json(answer(Asked(folder, QUESTIONS["deployments"], days=ALL_DAYS))))["rows"]
    assert all(datetime.fromisoformat(row["began"]).tzinfo is UTC for row in rows)
    assert rows


def test_parquet_needs_a_file(folder):
    with pytest.raises(ConfigError, match="--format parquet: name the file to write with --file"):
        write(answer(Asked(folder, QUESTIONS["costly-groups"])), Format.PARQUET, None)


@pytest.mark.parametrize("how", [Format.PARQUET, Format.CSV])
def test_a_file_that_cannot_be_written_is_named(folder, tmp_path, how):
    with pytest.raises(ConfigError, match=rf"--file {tmp_path}.*; name a file that can be written"):
        write(answer(Asked(folder, QUESTIONS["costly-groups"])), how, tmp_path)


@pytest.mark.parametrize("name", ROW_QUESTIONS)
def test_the_page_has_sentence_plot_and_sql(folder, tmp_path, name):
    found = answer(Asked(folder, QUESTIONS[name], days=ALL_DAYS))
    draw(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert found.sentence.replace("'", "&#x27;") in page
    assert page.count("<rect") == len(found.rows)
    assert "from movements" in page or "from rebalances" in page


@pytest.mark.parametrize(
    ("cause", "after"),
    [("join", "after joins"), ("unknown", "after rebalances of unknown cause"), ("new", "after rebalances of unknown")],
)
def test_the_cause_of_most_silence_is_in_words_also_if_a_later_release_wrote_it(cause, after):
    row = {"group": "orders", "rebalances": 2, "moves": 3, "silent_s": 10.0, "longest_s": 4.0}
    sentence = QUESTIONS["costly-groups"].sentence([row | {"main_cause": cause, "main_cause_s": 5.0}])
    assert f"50% of it {after}" in sentence


def test_silences_that_are_no_gaps_are_not_known():
    """Tables of an earlier release have negative ones, from a clock that was set back."""
    row = {"group": "orders", "rebalances": 2, "moves": 1, "silent_s": -2.0, "main_cause": None, "main_cause_s": None}
    said = QUESTIONS["costly-groups"].sentence([row])
    assert said == "No task is known to have been silent in 2 rebalances of 1 group."


@pytest.mark.parametrize("name", ROW_QUESTIONS)
def test_more_days_than_there_are_mean_all(folder, name):
    found = answer(Asked(folder, QUESTIONS[name], days=10**9))
    assert found.span.since_ms == 0
    assert found.rows == answer(Asked(folder, QUESTIONS[name], days=ALL_DAYS)).rows


def test_a_damaged_file_is_named(folder):
    (data,) = (folder / "movements").glob("day=*/*.parquet")
    kept = data.read_bytes()
    try:
        data.write_bytes(b"no parquet")
        with pytest.raises(ConfigError, match="cannot be read"):
            answer(Asked(folder, QUESTIONS["costly-groups"]))
    finally:
        data.write_bytes(kept)


# --- what other settings would have saved -------------------------------------------------------


def moved(gap_ms, *, planned, warm):
    place = zip(COLUMNS["movements"], ("orders", 1, 0, 0, NOON_MS), strict=False)
    return {**dict.fromkeys(COLUMNS["movements"]), **dict(place), "gap_ms": gap_ms, "planned": planned, "warm": warm}


def measured(*moves):
    rebalance = {**dict.fromkeys(COLUMNS["rebalances"]), "group": "orders", "time_ms": NOON_MS}
    rows = {**{table: [] for table in TABLES}, "rebalances": [rebalance], "movements": list(moves)}
    return ask(as_tables(rows), Asked(Path(), SAVINGS))


def replayed(alternatives, _only):
    """Kafka's defaults take 10 owner changes in 7 rounds, the others one less each."""
    ranking = [
        Ranked(each.assignor, each.settings, 10 - at, 5, 7 - at, 9, 0.0, 0.0, 0, 0)
        for at, each in enumerate(alternatives)
    ]
    return FleetAnswer(tuple(reversed(ranking)), 1, 3, 0, 10, 7)


def test_savings_are_what_moves_took_times_what_would_not_have_moved():
    silences = [moved(40_000, planned=False, warm=False), moved(10_000, planned=False, warm=True)]
    moves = [moved(300, planned=True, warm=True), moved(500, planned=True, warm=False), *silences]
    found = compare_savings(measured(*moves), None, replayed)
    assert [
        (row["change"], row["owner_changes_saved"], row["rounds_saved"], row["silent_s_saved"]) for row in found.rows
    ] == [
        ("assignor = least_movement", 1, 1, 0.4),
        ("max_warmup_replicas = 8", 2, 2, 0.8),
        (STANDBY, None, None, 30.0),
    ]
    assert found.sentence == (
        "Saved would have been, with assignor = least_movement: 1 owner change, about 400 ms of silence; "
        "with max_warmup_replicas = 8: 2 owner changes, about 800 ms of silence; "
        "with num_standby_replicas = 1: 1 cold move, about 30 s of silence."
    )


def test_what_was_not_measured_is_not_estimated():
    found = compare_savings(measured(moved(40_000, planned=False, warm=False)), None, replayed)
    assert [row["silent_s_saved"] for row in found.rows] == [None, None, None]
    assert found.sentence.endswith("with num_standby_replicas = 1: 1 cold move.")


def test_nothing_is_saved_where_nothing_moved():
    found = compare_savings(measured(), None, lambda alternatives, _only: same(alternatives))
    assert found.sentence == "None of these changes would have helped."


def same(alternatives):
    ranking = [Ranked(each.assignor, each.settings, 4, 4, 2, 2, 0.0, 0.0, 0, 0) for each in alternatives]
    return FleetAnswer(tuple(ranking), 1, 3, 0, 4, 2)


def test_savings_replay_the_rebalances_of_the_question_alone(spark, tmp_path):
    stories = {}
    for name in ("orders", "it's"):
        stories[name] = story = Story({"inputs": 6}, ours=False)
        for number in range(3):
            story.start(number)
            story.rebalance()
            story.settle(6)
            story.group.wait(3_600_000)
    parts = [derived(name, story, mask=at << 100) for at, (name, story) in enumerate(stories.items())]
    write_tables(tmp_path, joined_tables(parts))
    counts = []

    def replay(alternatives, only):
        played = what_if(spark, Layout(tmp_path), alternatives, tasks=2, only=only)
        counts.append((played.groups, played.replayed))
        return played

    for group in (None, "it's"):
        asked = Asked(tmp_path, SAVINGS, days=ALL_DAYS, group=group)
        found = compare_savings(answer(asked), group, replay)
        assert [row["change"] for row in found.rows] == [*CHANGES, STANDBY]
    newest = Asked(tmp_path, SAVINGS, days=1, until_ms=NOON_MS + 90 * MINUTE_MS)
    compare_savings(answer(newest), None, replay)
    (both, of_both), (one, of_one), (early, of_early) = counts
    assert (both, one, early) == (2, 1, 2)
    assert of_both == 2 * of_one
    assert 0 < of_early < of_both
