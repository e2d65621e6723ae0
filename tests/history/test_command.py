"""The words of ``history``: what each command prints, and how it ends."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from kstreams_assign.errors import ConfigError
from kstreams_assign.history import schemas, staging, writing
from kstreams_assign.history.ask.questions import QUESTIONS
from kstreams_assign.history.command import app
from kstreams_assign.history.delta import Snapshot
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.schemas import SCHEMAS
from tests.history.play import cut, fleet, rows, run
from tests.samples import sample


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.parametrize("command", ["follow", "report", "ask", "what-if", "generate", "compact"])
def test_every_command_has_an_example(command):
    assert f"Example: kstreams-assign history {command} " in call(command, "--help").stdout


def test_generate_writes_records_and_says_how_many(tmp_path):
    done = call("generate", "--records", tmp_path, "--groups", 3, "--members", 2, "--generations", 2)
    assert done.exit_code == 0
    assert done.stdout.startswith("3 groups, ")
    assert list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize(
    ("there", "below", "said"),
    [
        ("fleet/partition-00003.parquet", "fleet", "has Parquet files; name a new folder, or delete those files"),
        ("fleet", "fleet", "File exists; name a folder that can be written"),
        ("fleet", "fleet/records", "Not a directory; name a folder that can be written"),
    ],
)
def test_generate_writes_into_no_folder_of_another_fleet_and_over_no_file(tmp_path, there, below, said):
    file, folder = tmp_path / there, tmp_path / below
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"another fleet's")
    with pytest.raises(ConfigError) as refused:
        call("generate", "--records", folder, "--groups", 3, "--members", 2, "--generations", 2)
    assert str(refused.value) == f"--records {folder}: {said}"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    assert file.read_bytes() == b"another fleet's"


def test_compact_says_what_it_merged_and_readers_see_the_same(tmp_path):
    layout = Layout(tmp_path)
    run(layout, cut(fleet(), 4))
    before = rows(layout)
    done = call("compact", "--out", tmp_path)
    assert done.exit_code == 0
    assert " files merged into 1\n" in done.stdout
    assert rows(layout) == before


def test_report_says_what_it_does_and_where_it_wrote(tmp_path):
    run(Layout(tmp_path / "tables"), cut(fleet(), 4))
    html = tmp_path / "page.html"
    done = call("report", "--out", tmp_path / "tables", "--html", html)
    assert done.stderr.splitlines()[0] == f"reading the tables of {tmp_path / 'tables'}"
    assert done.stderr.splitlines()[-1].startswith("drawing groups 1 to ")
    first, *others = done.stdout.splitlines()
    assert first == f"wrote {html}"
    assert max(map(len, others)) <= 80


@pytest.mark.parametrize("as_of", ["1", "2999-01-01", "2999-01-01T12:00+02:00"])
def test_report_takes_a_version_or_a_time(tmp_path, as_of):
    run(Layout(tmp_path / "tables"), cut(fleet(), 1))
    done = call("report", "--out", tmp_path / "tables", "--html", tmp_path / "page.html", "--as-of", as_of)
    assert done.exit_code == 0
    assert " as of " in done.stderr.splitlines()[0]


def test_report_and_ask_look_back_across_columns_that_a_later_release_added(tmp_path, monkeypatch):
    layout, batches, page = Layout(tmp_path / "tables"), cut(fleet(), 4), tmp_path / "page.html"

    def shown(*as_of):
        report = call("report", "--out", layout.root, "--html", page, *as_of)
        asked = call("ask", "costly-groups", "--out", layout.root, "--format", "json", *as_of)
        return report.stdout, page.read_text(), json.loads(asked.stdout)

    added = {"rebalances": {"began_ms"}, "movements": {"released_ms", "taken_ms"}}
    older = {
        name: pa.schema([f for f in fields if f.name not in added.get(name, ())]) for name, fields in SCHEMAS.items()
    }
    with monkeypatch.context() as earlier:
        for room in (schemas, staging, writing):
            earlier.setattr(room, "SCHEMAS", older)
        run(layout, batches[:2])
    before, then = Snapshot(layout.table("rebalances")), shown()
    assert "began_ms" not in before.columns
    run(layout, batches)
    assert "began_ms" in Snapshot(layout.table("rebalances")).columns
    assert shown()[0] != then[0]
    assert shown("--as-of", before.version) == then


def test_a_time_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"--as-of 'yesterday' is not allowed; give a version .* or a time such as 2"):
        call("report", "--out", tmp_path, "--html", tmp_path / "page.html", "--as-of", "yesterday")


def test_compact_needs_a_folder_that_follow_has_written(tmp_path):
    with pytest.raises(ConfigError, match="no history follow has written there"):
        call("compact", "--out", tmp_path)


def test_a_setting_without_a_value_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"--client: write KEY=VALUE"):
        call("follow", "--out", tmp_path, "-b", "b:1", "--client", "security.protocol")


def test_ask_lists_its_questions():
    lines = call("ask").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(QUESTIONS)
    assert all(QUESTIONS[line.split()[0]].text in line for line in lines)


def test_ask_answers_and_draws(tmp_path):
    run(Layout(tmp_path / "tables"), cut(fleet(), 4))
    html = tmp_path / "page.html"
    done = call("ask", "costly-groups", "--out", tmp_path / "tables", "--html", html, "--format", "csv")
    assert done.stdout.startswith("group,rebalances,moves,")
    assert done.stderr == f"wrote {html}\n"
    assert QUESTIONS["costly-groups"].text in html.read_text(encoding="utf-8")
    assert "create temp view" in call("ask", "costly-groups", "--out", tmp_path / "tables", "--sql").stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("costs",), "ask 'costs': there is no such question; ask one of costly-groups, "),
        (("costly-groups", "--until", "noon"), "--until 'noon' is not allowed; give a time such as 2"),
        (("costly-groups", "--as-of", "noon"), "--as-of 'noon' is not allowed; give a version .*, or a time such as 2"),
        (
            ("costly-groups", "--until", "9999-12-31T23:59:59-10:00"),
            "--until '9999-.*' is not allowed; give a time such",
        ),
        (
            ("costly-groups", "--until", "0001-01-01T00:00:00+10:00"),
            "--until '0001-.*' is not allowed; give a time such",
        ),
        (("savings", "--sql"), "--sql: savings replays the rebalances, which SQL cannot; leave out --sql"),
        (("savings", "--as-of", "3"), "--as-of: savings replays the newest tables; leave it out, or give --until"),
        (
            ("deployments", "--sql", "--as-of", "3"),
            "--sql: the script reads the newest tables; leave out --as-of, or give",
        ),
        (("deployments",), "the folder has no table of the history; write them first"),
    ],
    ids=str,
)
def test_ask_refuses_what_it_cannot_answer(tmp_path, words, problem):
    with pytest.raises(ConfigError, match=problem):
        call("ask", *words, "--out", tmp_path)


@pytest.mark.parametrize(
    "words", [("report", "--html"), ("ask", "costly-groups", "--html"), ("ask", "costly-groups", "--file")], ids=str
)
def test_a_file_that_cannot_be_written_is_refused_before_the_tables_are_looked_for(tmp_path, words):
    with pytest.raises(ConfigError, match=f"{words[-1]} {tmp_path}: is a folder; name a file that can be written"):
        call(*words, tmp_path, "--out", tmp_path / "nowhere")


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59.9999Z", "0001-01-01", "1969-12-31T23:59:59.9999Z"])
def test_ask_looks_back_from_any_time_that_can_be_written(tmp_path, until):
    run(Layout(tmp_path), cut(fleet(), 1))
    assert call("ask", "costly-groups", "--out", tmp_path, "--until", until).exit_code == 0


@pytest.mark.parametrize("out", ["file:///history", "s3a://key:marker@bucket/history", "s3://bucket/history"])
@pytest.mark.parametrize("command", ["follow", "report", "what-if", "compact", "ask"])
def test_an_address_that_is_not_allowed_is_refused_instead_of_made_into_a_folder(tmp_path, monkeypatch, command, out):
    monkeypatch.chdir(tmp_path)
    words = {"report": ["--html", "page.html"], "ask": ["costly-groups"], "follow": ["--records", tmp_path]}
    with pytest.raises(ConfigError, match=r"--out \w+:/.*(name the folder|table \[conf\]|write s3a:)") as refused:
        call(command, *words.get(command, ()), "--out", out)
    assert "marker" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["eu%2Dwest", "eu\\west"])
@pytest.mark.parametrize("command", ["follow", "report", "what-if", "compact", "ask"])
def test_a_folder_whose_tables_would_be_looked_for_elsewhere_is_refused(tmp_path, command, name):
    words = {"report": ["--html", "page.html"], "ask": ["costly-groups"], "follow": ["--records", tmp_path]}
    with pytest.raises(ConfigError, match=r"--out .*eu.*west: '.*' is not allowed in the path .*; name a folder"):
        call(command, *words.get(command, ()), "--out", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


NAMES = ["a b", "100%", "a#b", "a?b", "größe", "a[1]", "{x}", "a:b", "it's", "~x", "+x"]


@pytest.mark.parametrize("name", sample(NAMES, 3))
def test_any_other_folder_may_have_tables(tmp_path, name):
    run(Layout(tmp_path / name), cut(fleet(), 2))
    assert call("compact", "--out", tmp_path / name).exit_code == 0
    assert call("ask", "costly-groups", "--out", tmp_path / name).exit_code == 0


@pytest.mark.parametrize("command", ["report", "what-if", "compact", "ask"])
def test_the_settings_of_spark_may_come_from_a_file(tmp_path, command):
    """Of tables in a folder, they change nothing."""
    run(Layout(tmp_path / "tables"), cut(fleet(), 1))
    file = tmp_path / "history.toml"
    file.write_text('[conf]\n"spark.hadoop.fs.s3a.endpoint" = 1\n', encoding="utf-8")
    words = {"report": ["--html", tmp_path / "page.html"], "ask": ["costly-groups"]}.get(command, ())
    with pytest.raises(
        ConfigError, match=r"--config .*history.toml: 'spark.hadoop.fs.s3a.endpoint' of \[conf\] must be"
    ):
        call(command, *words, "--out", tmp_path / "tables", "--config", file)
    if command != "what-if":
        file.write_text('[conf]\n"spark.hadoop.fs.s3a.endpoint" = "https://s3.example"\n', encoding="utf-8")
        assert call(command, *words, "--out", tmp_path / "tables", "--config", file).exit_code == 0


def test_a_size_of_batches_is_for_a_broker(tmp_path):
    with pytest.raises(ConfigError, match="--records-a-batch: a folder is read at once"):
        call("follow", "--out", tmp_path / "out", "--records", tmp_path, "--records-a-batch", 5)
