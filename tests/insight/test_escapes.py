"""Names that members chose do not steer the operator's terminal: their control characters are printed as escapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kstreams_assign import cli
from kstreams_assign.errors import KStreamsAssignError
from kstreams_assign.insight import migrate, transactions
from kstreams_assign.insight.fetch import name_groups
from kstreams_assign.observe.migration import MigrationFacts, check_migration
from kstreams_assign.observe.snapshot import snapshot_text
from kstreams_assign.observe.streams_saved import streams_snapshot_text
from kstreams_assign.observe.transactions import ExaminedTransaction
from kstreams_assign.wire import Endpoint
from tests.insight.run import Cli
from tests.observe.seen_group import settled
from tests.observe.test_streams_reasons import member, snapshot, tasks
from tests.observe.test_transactions import KNOWN, OPEN

STEERING = "größe\x1b[2J\x07\r\u202e-"
SHOWN = r"größe\x1b[2J\x07\r\u202e-"


@pytest.fixture
def classic(tmp_path: Path) -> Path:
    group = settled()
    group.later_assignor = f"{STEERING}assignor"
    for each in group.members.values():
        each.endpoint, each.rack = f"{STEERING}endpoint:80", f"{STEERING}rack"
    group.rebalance()
    seen = group.snapshot()
    members = tuple(
        replace(each, client_id=f"{STEERING}client", client_host=f"/{STEERING}host") for each in seen.members
    )
    gaps = {"topics": f"{STEERING}gap"}
    file = tmp_path / "classic.json"
    file.write_text(snapshot_text(replace(seen, group=f"{STEERING}group", members=members, gaps=gaps)))
    return file


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    each = member(
        f"{STEERING}client",
        tasks("0_0", "1_0"),
        tasks("0_0", "1_0"),
        client_host=f"/{STEERING}host",
        user_endpoint=Endpoint(f"{STEERING}endpoint", 80),
        client_tags={f"{STEERING}key": f"{STEERING}tag"},
        instance_id=f"{STEERING}instance",
        process_id=f"\x1b[2J{STEERING}",
    )
    described = snapshot(each, member("b", tasks("0_1", "1_1", "1_2"), tasks("0_1", "1_1", "1_2")))
    group = replace(described.group, group_id=f"{STEERING}group", assignor_name=f"{STEERING}assignor")
    file = tmp_path / "streams.json"
    file.write_text(streams_snapshot_text(replace(described, group=group, gaps={"topics": f"{STEERING}gap"})))
    return file


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("classic", ("group", "assignor", "endpoint", "rack", "client", "host", "gap")),
        ("streams", ("group", "assignor", "endpoint", "key", "tag", "instance", "client", "host", "gap")),
    ],
)
def test_what_members_call_themselves_is_shown_escaped(
    run: Cli, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    file = request.getfixturevalue(kind)
    done = run("inspect", file, "--assumptions")
    assert (done.status, unprintable(done.out)) == (0, set())
    assert [name for name in names if f"{SHOWN}{name}" not in done.out] == []
    assert run("inspect", file, "--json").facts["group"] == f"{STEERING}group"


@pytest.mark.parametrize("kind", ["classic", "streams"])
def test_what_if_shows_names_escaped(run: Cli, request: pytest.FixtureRequest, kind: str) -> None:
    done = run("what-if", request.getfixturevalue(kind), "--add", 1)
    assert (done.status, unprintable(done.out)) == (0, set())
    assert f"{SHOWN}group" in done.out


def test_transactional_ids_are_shown_escaped() -> None:
    transaction = ExaminedTransaction(OPEN, replace(KNOWN, transactional_id=STEERING))
    look = transactions.Look([transactions.OpenedTransaction(transaction)], [])
    (line,) = transactions.as_lines(transactions.Asked("app", "b:1"), look)
    assert f", of {SHOWN}" in line
    assert unprintable(line) == set()


def test_members_that_stand_in_the_way_of_a_migration_are_named_escaped() -> None:
    facts = MigrationFacts("app", "streams", "classic", members=(STEERING,))
    text = "\n".join(migrate.as_lines(facts, check_migration(facts)))
    assert f"1 member is in the group: {SHOWN};" in text
    assert unprintable(text) == set()


def test_the_groups_that_exist_are_named_escaped_on_one_line() -> None:
    assert name_groups("app", {f"{STEERING}\n": ""}) == rf"the groups there are: {SHOWN}\n"


def test_an_error_is_printed_escaped_and_keeps_its_lines(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise KStreamsAssignError(f"{STEERING}\n\tat line 2")

    monkeypatch.setattr(cli, "app", failing)
    assert run() == (1, "", f"kstreams-assign: {SHOWN}\n\tat line 2\n")


def unprintable(text: str) -> set[str]:
    return {char for char in text if not char.isprintable() and char != "\n"}
