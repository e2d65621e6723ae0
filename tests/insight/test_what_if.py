"""``what-if`` as a command, on groups that were saved in a file: real bytes, no broker."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from kstreams_assign.group.dialects import DIALECTS, Dialect
from kstreams_assign.insight import what_if as work
from kstreams_assign.observe.snapshot import GroupSnapshot, snapshot_text
from kstreams_assign.observe.streams_saved import streams_snapshot_text
from tests.group.little_group import END
from tests.insight.run import Cli
from tests.observe.seen_group import SeenGroup, scaled_out, settled
from tests.observe.test_streams_reasons import member, snapshot, tasks

CONTRACT = {
    "change",
    "assignor",
    "owner_changes",
    "lower_bound",
    "rebalances",
    "seconds",
    "extra_replicas",
    "tasks_without_standby",
}
TWO_MEMBERS = snapshot(
    member("a", tasks("0_0", "1_0"), tasks("0_0", "1_0")),
    member("b", tasks("0_1", "1_1", "1_2"), tasks("0_1", "1_1", "1_2")),
)
"""A group of the streams protocol."""
LAG = ("--current", "acceptable_recovery_lag=100")
Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def saved(group: SeenGroup, name: str = "group.json") -> Path:
        path = tmp_path / name
        path.write_text(snapshot_text(group.snapshot()))
        return path

    return saved


def rest(members: int = 3, partitions: int = 12, *, ours: bool = True, **settings: object) -> SeenGroup:
    """Return a group at rest whose members have all reported their running tasks."""
    group = settled(members=members, partitions=partitions, ours=ours, **settings)
    group.assignor = "least_movement" if ours else "high_availability"
    group.rebalance()
    return group


def test_the_facts_are_those_of_the_contract(run: Cli, save: Save) -> None:
    file = save(rest(num_standby_replicas=1))
    facts = run("what-if", file, "--add", 1, "--json", "--restore-rate", 1000, *LAG).facts
    assert facts["now"]["change"] == "nothing changes"
    assert (facts["group"], facts["processes"], facts["tasks"], facts["restore_rate"]) == ("app", 3, 12, 1000)
    assert [(outcome["change"], outcome["assignor"]) for outcome in facts["alternatives"]] == [
        ("add 1", "least_movement"),
        ("add 1", "high_availability"),
    ]
    for outcome in (facts["now"], *facts["alternatives"]):
        assert outcome.keys() >= CONTRACT
    ours, java = facts["alternatives"]
    assert ours["owner_changes"] == ours["lower_bound"] == 3
    assert java["owner_changes"] > 3
    assert ours["seconds"] > 0


def test_new_settings_stand_beside_the_group_as_it_is(run: Cli, save: Save) -> None:
    words = ("--add", 1, "--set", "max_warmup_replicas=8", "--set", "warmup_queue=true", "--assignor", "least_movement")
    facts = run("what-if", save(rest()), *words, "--json", *LAG).facts
    plain, changed = facts["alternatives"]
    assert [plain["change"], changed["change"]] == ["add 1", "add 1, warmup_queue = True, max_warmup_replicas = 8"]
    assert (plain["rounds"], plain["rebalances"]) > (changed["rounds"], changed["rebalances"]) == (2, 3)


def test_java_processes_stand_beside_as_many_of_ours(run: Cli, save: Save) -> None:
    done = run("what-if", save(rest()), "--add-java", 1, "--json", *LAG)
    java, ours = done.facts["alternatives"]
    assert (java["change"], java["assignor"]) == ("add 1 Java", "high_availability")
    assert (ours["change"], ours["assignor"]) == ("add 1", "least_movement")
    assert java["owner_changes"] > ours["owner_changes"]
    assert "the group uses assignor high_availability" in java["warnings"][0]


def test_a_java_group_is_simulated_with_javas_assignor_whatever_is_set(run: Cli, save: Save) -> None:
    facts = run("what-if", save(rest(ours=False)), "--add", 1, "--json", *LAG).facts
    assert [outcome["assignor"] for outcome in facts["alternatives"]] == ["high_availability"]


def test_a_group_that_warms_up_goes_on_from_where_it_is(run: Cli, save: Save) -> None:
    facts = run("what-if", save(scaled_out(num_standby_replicas=0)), "--json", *LAG).facts
    now = facts["now"]
    assert (now["owner_changes"], now["rounds"], now["rebalances"], now["seconds"]) == (3, 2, 4, None)
    assert "not known" in facts["assumed"]["restore rate"]
    assert [outcome["change"] for outcome in facts["alternatives"]] == ["nothing changes"]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_the_restore_rate_is_measured_from_an_earlier_snapshot(run: Cli, tmp_path: Path, dialect: Dialect) -> None:
    """Members report positions, or in the KIP's dialect lags, which shrink."""
    group = scaled_out(dialect=dialect)
    earlier, later = tmp_path / "earlier.json", tmp_path / "later.json"
    for file, assigned_ms in ((earlier, 1_000_000), (later, 1_010_000)):
        file.write_text(snapshot_text(replace(group.snapshot(), assigned_ms=assigned_ms)))
        newcomer = group.members[UUID(int=2)]
        under_way, ended = sorted(newcomer.positions)[:2]
        newcomer.positions |= {under_way: END // 5, ended: END}
        group.rebalance()
    facts = run("what-if", later, "--since", earlier, "--json", *LAG).facts
    assert facts["restore_rate"] == END // 5 // 10, "in ten seconds; the copy that ended may have done so in one"
    assert facts["now"]["seconds"] is not None
    still = run("what-if", later, "--since", later, "--json", *LAG).facts
    assert still["restore_rate"] is None


@pytest.mark.parametrize("word", ["00000000-0000-0000-0000-000000000002", "member-2", "client-of-member-2"])
def test_a_process_has_several_names(run: Cli, save: Save, word: str) -> None:
    facts = run("what-if", save(rest()), "--remove", word, "--json", *LAG).facts
    assert "remove" in facts["alternatives"][0]["change"]
    assert (facts["alternatives"][0]["adopted"], facts["alternatives"][0]["cold"]) == (4, 4)


def test_people_see_a_table_and_the_assumptions(run: Cli, save: Save) -> None:
    done = run("what-if", save(rest()), "--replace", "member-3", *LAG)
    assert done.status == 0
    assert "replace" in done.out
    assert "least_movement" in done.out
    assert "assumed:" in done.out
    assert "restore rate: not known" in done.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--add", "1000", "--threads", "2"), "--add 1000 and --add-java 0 with --threads 2: 2,000 members"),
        (("--add", "1000000"), "1,000,000 members would be added; allowed are 1,000"),
        (("--remove", "absent"), "no process is called 'absent' in group app; there are 00000000"),
        (("--remove", "00000000"), "3 processes are called '00000000' in group app"),
        (("--set", "max_warmups=2"), "--set max_warmups=2: write KEY=VALUE with one of"),
        (("--set", "warmup_queue=maybe"), "must be true or false"),
        (("--assignor", "best"), "assignor 'best': must be one of"),
        (("--remove", "member-1", "--remove", "member-2", "--remove", "member-3"), "no process would be left"),
        (("--since", "not-there.json"), f"--since {Path.cwd()}/not-there.json: No such file or directory; name a file"),
    ],
)
def test_words_that_make_no_sense_are_refused_with_status_2(
    run: Cli, save: Save, words: tuple[str, ...], says: str
) -> None:
    done = run("what-if", save(rest()), *words)
    assert (done.status, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("first", ["--remove", "--replace"])
def test_a_process_that_is_named_twice_is_refused(run: Cli, save: Save, first: str, protocol: str) -> None:
    file, names = save(rest()), ("member-1", "00000000-0000-0000-0000-000000000001")
    if protocol == "streams":
        names = ("a", "process-a")
        file.write_text(streams_snapshot_text(TWO_MEMBERS))
    done = run("what-if", file, first, names[0], "--replace", names[1])
    assert (done.status, done.out) == (2, "")
    assert "a process is named twice to be removed or replaced" in done.err


def test_a_process_that_is_replaced_leaves_tasks_that_no_newcomer_takes_over_warm(run: Cli, tmp_path: Path) -> None:
    """Its tasks have no standby, so they are silent until they are restored, in a classic group too."""
    file = tmp_path / "group.json"
    file.write_text(streams_snapshot_text(TWO_MEMBERS))
    words = ("what-if", file, "--replace", "b", "--restore-rate", 10)
    asked = run(*words, "--json").facts
    assert asked["cold"] == asked["warm_join"]["cold"] == 2
    assert asked["warm_join"]["silence_ms_max"] == asked["silence_ms_max"] > 9_000
    assert asked["classic"]["cold"] == 2
    assert "hand-over" not in run(*words).out
    joins = run("what-if", file, "--add", 1, "--restore-rate", 10, "--json").facts
    assert (joins["cold"], joins["warm_join"], joins["classic"]["cold"]) == (1, {"cold": 0, "silence_ms_max": 0}, 0)


def test_a_group_without_members_cannot_be_simulated(run: Cli, tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text(snapshot_text(GroupSnapshot("app", "Empty", "consumer", "", (), 0)))
    done = run("what-if", file, "--add", 1)
    assert (done.status, "no members" in done.err) == (1, True)


def test_topics_that_a_snapshot_lacks_are_not_said_to_be_missing(run: Cli, save: Save, tmp_path: Path) -> None:
    group = rest()
    planned = tmp_path / "planned.toml"
    planned.write_text('[[topology.subtopology]]\nsources = ["orders", "payments"]\nstores = ["totals"]\n')
    says = "nothing can be predicted: source topics are not in the snapshot: payments; ask the brokers (-b HOST:PORT)"
    done = run("what-if", save(group), "--topology", planned, "--add", 1)
    assert (done.status, done.out, says in done.err) == (2, "", True)
    facts = run("inspect", save(group), "--topology", planned, "--json").facts
    assert facts["assumed"]["topology"].endswith("topics that are not in the snapshot: payments; they count as empty")


def test_topics_that_could_not_be_listed_are_not_said_to_be_missing(run: Cli, tmp_path: Path) -> None:
    file, gap = tmp_path / "group.json", "topics and groups could not be listed: TOPIC_AUTHORIZATION_FAILED"
    file.write_text(snapshot_text(replace(rest().snapshot(), partition_counts={}, gaps={"topics": gap})))
    done = run("what-if", file, "--add", 1)
    assert (done.status, f"nothing can be predicted: {gap}" in done.err) == (2, True)


def test_without_brokers_a_file_is_required(run: Cli) -> None:
    done = run("what-if", "no-such-group", "--add", 1)
    says = "no-such-group: to look at a group, add its brokers (-b HOST:PORT)"
    assert (done.status, says in done.err) == (2, True)


def test_a_long_simulation_reports_progress_and_ends_on_ctrl_c(save: Save) -> None:
    words = [sys.executable, "-m", "kstreams_assign", "what-if", str(save(rest())), "--add", "1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as playing:
        assert playing.stderr.readline() == "playing 1 of 2: add 1000 (least_movement)\n"
        playing.send_signal(signal.SIGINT)
        assert (playing.wait(60), playing.stdout.read()) == (130, "")
        assert playing.stderr.read() == ""


def test_rebalances_are_limited_and_counted(run: Cli, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the assignor needs many: here more than the limit, in a large group more than a user waits for."""
    monkeypatch.setattr(work, "QUICK_SIZE", 0)
    change = ("what-if", save(rest()), "--add", 1, "--assignor", "high_availability", *LAG)
    (_, whole) = run(*change, "--json").facts["alternatives"]
    assert whole["rebalances"] > work.TELLS_EACH
    limited = run(*change, "--rebalances", work.TELLS_EACH, "--json")
    (_, outcome) = limited.facts["alternatives"]
    assert (outcome["rebalances"], outcome["converged"], outcome["seconds"]) == (work.TELLS_EACH, False, None)
    assert outcome["owner_changes_range"] is None, "nor is it played again for other places of the new process"
    assert limited.err.splitlines()[-2:] == [
        "playing 2 of 2: add 1 (high_availability)",
        f"playing 2 of 2: add 1 (high_availability): {work.TELLS_EACH} rebalances",
    ]
    assert "not at rest" in run(*change, "--rebalances", work.TELLS_EACH).out
    exactly = run(*change, "--rebalances", whole["rebalances"], "--json").facts["alternatives"][1]
    assert exactly == whole, "as many as it needs are enough"


def test_a_streams_group_has_no_limit_of_rebalances(run: Cli, tmp_path: Path) -> None:
    file = tmp_path / "streams.json"
    file.write_text(streams_snapshot_text(TWO_MEMBERS))
    done = run("what-if", file, "--add", 1, "--rebalances", 7)
    assert (done.status, "--rebalances" in done.err) == (2, True)
