"""The page on the disk: what it is made of, what it refuses, and that no name from the data becomes markup."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from html import escape
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.history import delta, writing
from kstreams_assign.history.ask.answer import Asked, answer
from kstreams_assign.history.ask.questions import BY_SQL
from kstreams_assign.history.compaction import compact
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.report import report
from kstreams_assign.history.report.read import rows
from kstreams_assign.history.report.rows import Member
from kstreams_assign.history.report.write import SECTIONS_MAX
from kstreams_assign.history.schemas import SCHEMAS
from kstreams_assign.history.tables import empty_tables, joined_tables
from kstreams_assign.history.tables_reader import TablesReader
from kstreams_assign.history.writing import HistoryWriter
from kstreams_assign.page.frame import Html, data_block, page, table, tag
from tests.history.report_data import NOON_MS, Story, derived, write_tables

HOSTILE = "<script>alert(1)</script>\"'&\u2028</title>"


@cache
def pair_tables(group):
    story = Story({"orders": 4})
    story.start(1)
    story.rebalance()
    story.group.wait(60_000)
    story.start(2)
    story.rebalance()
    story.settle(6)
    return derived(group, story)


class Reader(HTMLParser):
    """What a browser would see: elements and the text of data blocks."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.attributes, self._kind = [], {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._kind = dict(attrs).get("id", "code") if tag == "script" else None

    def handle_endtag(self, _tag):
        self._kind = None

    def handle_data(self, data):
        if self._kind:
            self.scripts.setdefault(self._kind, []).append(data)

    def data(self, name):
        return json.loads("".join(self.scripts[name]))


def drawn(tmp_path, tables, **options):
    write_tables(tmp_path / "tables", tables)
    summary = report(tmp_path / "tables", tmp_path / "page.html", **options)
    return summary, (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_page_names_every_group_and_its_summary_says_what_is_on_it(tmp_path):
    tables = joined_tables([pair_tables("orders"), pair_tables("clicks")])
    summary, text = drawn(tmp_path, tables)
    assert (summary.groups, summary.sections, summary.rebalances) == (2, 2, len(tables["rebalances"]["group"]))
    assert summary.owner_changes == sum(count or 0 for count in tables["rebalances"]["owner_changes"]) > 0
    assert summary.size == len(text.encode())
    assert {Reader(text).data(f"group-{index}")["group"] for index in (0, 1)} == {"orders", "clicks"}


def test_the_page_opens_with_the_answers_about_its_days_and_its_group(tmp_path):
    write_tables(tmp_path / "tables", joined_tables([pair_tables("orders"), pair_tables("clicks")]))
    summary = report(tmp_path / "tables", tmp_path / "page.html", group="orders", days=2)
    answers = [answer(Asked(tmp_path / "tables", each, 2, group="orders")) for each in BY_SQL]
    assert list(summary.answers) == [each.sentence for each in answers]
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    places = [text.index(escape(sentence)) for sentence in (str(answers[0].span), *summary.answers)]
    assert places == sorted(places)
    assert places[-1] < text.index('id="overview"')


def test_a_page_makes_no_requests_and_allows_no_script_but_its_own(tmp_path):
    _, text = drawn(tmp_path, pair_tables("orders"))
    seen = Reader(text)
    assert [value for name, value in seen.attributes if name in {"src", "srcset"}] == []
    assert {value for name, value in seen.attributes if name == "href"} == {"data:,", "#group-0"}
    policy = next(value for name, value in seen.attributes if name == "content" and value.startswith("default-src"))
    allowed = policy.partition("script-src ")[2].split()
    hashes = [f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in seen.scripts["code"]]
    assert len(hashes) == 6
    assert allowed == hashes


def test_a_hostile_name_is_text_wherever_it_comes_from(tmp_path):
    tables = pair_tables("calm")
    columns = {
        "rebalances": ("group", "evidence", "confidence", "assignor", "cause"),
        "members": ("group", "client_id", "client_host", "endpoint"),
        "task_placements": ("group", "task"),
        "movements": ("group", "task"),
    }
    hostile = {name: dict(rows) for name, rows in tables.items()}
    for name, some in columns.items():
        for column in some:
            hostile[name][column] = [HOSTILE] * len(tables[name]["group"])
    lost = {"offsets_partition": [1], "offsets_offset": [2], "time_ms": [NOON_MS], "kind": [HOSTILE]}
    hostile["quarantine"] = lost | {"reason": [HOSTILE], "key": [b""], "value": [b""]}
    _, harmless = drawn(
        tmp_path / "a", tables | {"quarantine": hostile["quarantine"] | {"kind": ["x"], "reason": ["y"]}}
    )
    _, text = drawn(tmp_path / "b", hostile)
    assert Reader(text).tags == Reader(harmless).tags
    assert Reader(text).data("group-0")["group"] == HOSTILE


def test_tables_without_a_generation_give_a_page_that_says_so(tmp_path):
    counted = empty_tables()
    counted["counts"] = {"kind": ["not_streams"], "records": [7]}
    summary, text = drawn(tmp_path, counted)
    assert (summary.groups, summary.headlines) == (0, ())
    assert "No rebalance of any Kafka Streams group stands in these tables" in text
    assert "7 records were read" in text
    assert "script" not in Reader(text).tags


def test_tables_that_were_made_and_never_written_give_that_page_too(tmp_path):
    HistoryWriter(Layout(tmp_path))
    assert report(tmp_path, tmp_path / "page.html").groups == 0


def test_a_folder_without_tables_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match=r"the folder has no table of the history; write them first: .* follow"):
        report(tmp_path, tmp_path / "page.html")


def test_a_group_that_is_in_no_table_is_refused_with_those_that_are_near(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    with pytest.raises(
        ConfigError, match=r"--group 'ordres' is in no table; the tables have 1 group, such as 'orders'"
    ):
        report(tmp_path, tmp_path / "page.html", group="ordres")


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    (broken,) = (tmp_path / "members").rglob("batch-*.parquet")
    broken.write_bytes(b"PAR1 no more")
    with pytest.raises(ConfigError, match=rf"cannot be read \(.*{broken.name}"):
        report(tmp_path, tmp_path / "page.html")


def test_a_file_that_is_missing_is_named_with_the_reason_that_is_likely(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    (lost,) = (tmp_path / "members").rglob("batch-*.parquet")
    lost.unlink()
    with pytest.raises(ConfigError, match=rf"lacks a file \(.*members.*{lost.name}.*deleted after 7 days.*--as-of"):
        report(tmp_path, tmp_path / "page.html")


def test_folders_of_parquet_files_of_an_earlier_release_are_refused(tmp_path):
    (tmp_path / "rebalances" / "day=2026-11-21" / "batch=00000000").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"table rebalances .* without a log of Delta Lake.*into a new folder"):
        report(tmp_path, tmp_path / "page.html")


def test_a_page_that_cannot_be_written_is_named(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--html .*file/page\.html: .*; name a file that can be written"):
        report(tmp_path, tmp_path / "file" / "page.html")


def test_a_report_reads_one_version_of_each_table_whatever_is_written_meanwhile(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    reader = TablesReader(tmp_path)
    write_tables(tmp_path, pair_tables("clicks"), batch=1)
    writer = HistoryWriter(Layout(tmp_path))
    assert compact(writer, "2999-01-01")
    assert {row.group for row in rows(reader, Member)} == {"orders"}
    assert {row.group for row in rows(TablesReader(tmp_path), Member)} == {"orders", "clicks"}


def test_no_days_at_all_are_refused(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    with pytest.raises(ConfigError, match="--days 0 is not allowed"):
        report(tmp_path, tmp_path / "page.html", days=0)


def test_files_that_no_commit_names_are_not_looked_at(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    (tmp_path / "rebalances" / "day=2026-11-21" / "batch-00000001-x.parquet").write_bytes(b"not ready")
    assert report(tmp_path, tmp_path / "page.html").groups == 1


def test_the_tables_as_they_were_at_a_version_or_a_time(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    old = delta.Snapshot(tmp_path / "rebalances")
    write_tables(tmp_path, pair_tables("clicks"), batch=1)
    lines = []
    for as_of in (old.version, old.time):
        summary = report(tmp_path, tmp_path / "page.html", as_of=as_of, say=lines.append)
        assert (summary.groups, summary.rebalances) == (1, len(pair_tables("orders")["rebalances"]["group"]))
        assert f"as of {as_of}" in lines[-2]
    assert report(tmp_path, tmp_path / "page.html").groups == 2
    assert report(tmp_path, tmp_path / "page.html", as_of=datetime.now(UTC)).groups == 2


def test_tables_as_they_were_before_a_column_was_added(tmp_path, monkeypatch):
    whole = SCHEMAS["rebalances"]
    older = pa.schema([field for field in whole if field.name != "adopted"])
    with monkeypatch.context() as earlier_release:
        earlier_release.setattr(writing, "SCHEMAS", {**SCHEMAS, "rebalances": older})
        write_tables(tmp_path, pair_tables("orders"))
    old = delta.Snapshot(tmp_path / "rebalances")
    write_tables(tmp_path, pair_tables("clicks"), batch=1)
    assert old.columns | {"adopted"} == delta.Snapshot(tmp_path / "rebalances").columns
    assert report(tmp_path, tmp_path / "page.html", as_of=old.version).groups == 1
    assert report(tmp_path, tmp_path / "page.html").groups == 2


def test_a_table_that_was_added_since_is_left_out(tmp_path):
    write_tables(tmp_path, pair_tables("orders"))
    now_s = time.time()
    for file in tmp_path.glob("*/_delta_log/*.json"):
        if file.parts[-3] != "quarantine":
            os.utime(file, (now_s - 60,) * 2)
    old = TablesReader(tmp_path, datetime.fromtimestamp(now_s - 30, UTC))
    assert "group" in old.columns_of("members")
    assert old.columns_of("quarantine") == set()
    assert report(tmp_path, tmp_path / "page.html", as_of=datetime.fromtimestamp(now_s - 30, UTC)).unreadable == 0
    shutil.rmtree(tmp_path / "quarantine")  # as before the first run of a release that has it
    assert report(tmp_path, tmp_path / "page.html").groups == 1


@pytest.mark.parametrize(
    ("as_of", "text"),
    [
        (99, "--as-of 99: table rebalances has no such version: the newest is 1, and logs are deleted after 7 days"),
        (datetime(2001, 1, 1, tzinfo=UTC), r"--as-of 2001-01-01.*: the oldest version of table rebalances is of 20"),
    ],
)
def test_a_version_or_a_time_that_the_tables_do_not_have_is_refused(tmp_path, as_of, text):
    write_tables(tmp_path, pair_tables("orders"))
    with pytest.raises(ConfigError, match=text):
        report(tmp_path, tmp_path / "page.html", as_of=as_of)


def test_one_group_alone_is_shown_when_it_is_asked_for(tmp_path):
    tables = joined_tables([pair_tables("orders"), pair_tables("clicks")])
    summary, text = drawn(tmp_path, tables, group="clicks")
    assert (summary.groups, summary.sections) == (1, 1)
    assert "orders" not in re.findall(r"<option[^>]*>([^<]*)", text)


def test_the_last_days_are_counted_back_from_the_newest_generation(tmp_path):
    old, new = pair_tables("orders"), pair_tables("clicks")
    days = 10
    moved = {name: dict(columns) for name, columns in old.items()}
    for columns in moved.values():
        if "time_ms" in columns:
            columns["time_ms"] = [time_ms - days * 86_400_000 for time_ms in columns["time_ms"]]
    write_tables(tmp_path, moved, day="2026-11-11")
    write_tables(tmp_path, new, batch=1)
    assert report(tmp_path, tmp_path / "page.html").groups == 2
    assert report(tmp_path, tmp_path / "page.html", days=11).groups == 2
    assert report(tmp_path, tmp_path / "page.html", days=9).groups == 1
    assert report(tmp_path, tmp_path / "page.html", days=10**9).groups == 2


def test_days_are_counted_to_the_millisecond(tmp_path):
    tables = dict(pair_tables("orders"))
    newest = max(tables["rebalances"]["time_ms"])
    times = [newest - 86_400_000 - 1, newest - 86_400_000]
    tables["quarantine"] = {
        "offsets_partition": [1, 1],
        "offsets_offset": [2, 3],
        "time_ms": times,
        "kind": ["damaged_key"] * 2,
        "reason": ["cut", "cut"],
        "key": [b"", b""],
        "value": [b"", b""],
    }
    write_tables(tmp_path, tables)
    assert report(tmp_path, tmp_path / "page.html").unreadable == 2
    assert report(tmp_path, tmp_path / "page.html", days=1).unreadable == 1


def test_groups_beyond_the_limit_are_in_the_overview_and_the_page_says_that_they_have_no_section(tmp_path):
    tables = pair_tables("orders")
    many = empty_tables()
    many["rebalances"] = {
        column: [f"g{n}" if column == "group" else values[0] for n in range(SECTIONS_MAX + 2)]
        for column, values in tables["rebalances"].items()
    }
    summary, text = drawn(tmp_path, many)
    assert (summary.groups, summary.sections) == (SECTIONS_MAX + 2, SECTIONS_MAX)
    assert "2 groups have no section here" in text
    assert all(f">g{n}<" in text for n in range(SECTIONS_MAX + 2))


def test_everything_but_markup_is_escaped():
    assert tag("p", "<b>", Html("<i>x</i>"), title='"', hidden=True, id=None) == (
        '<p title="&quot;" hidden>&lt;b&gt;<i>x</i></p>'
    )
    assert "&lt;td&gt;" in table(("<td>",), (("<td>",),), "<td>")
    assert Reader(table(("<b>",), (("<b>",),), "<b>")).tags.count("b") == 0


def test_no_text_ends_a_data_block():
    for hostile in ("</script><b>", "</script x='", "<!--<script>", HOSTILE):
        text = page("t", data=(data_block("d", {"x": hostile}), data_block("e", 1)))
        assert Reader(text).data("d") == {"x": hostile}
        assert Reader(text).data("e") == 1
        assert data_block("d", hostile).count("<") == 2  # a browser ends a script at less than Python's reader does
