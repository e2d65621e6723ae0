"""The output and the exit status of ``kstreams-assign simulate``."""

from __future__ import annotations

import json
from itertools import count

import pytest
from typer.testing import CliRunner

from kstreams_assign import cli
from kstreams_assign.engine import membership
from kstreams_assign.sim import simulate as work
from kstreams_assign.sim.play import play
from tests.sim.doubles import offsets_outside, old_owner_ignored
from tests.sim.streams_bugs import STREAMS_BUGS


def simulate(*words):
    return CliRunner().invoke(cli.app, ["simulate", *words])


def test_the_facts_as_json():
    done = simulate("--seed", "3", "--count", "2", "--faults", "--json")
    facts = json.loads(done.stdout)
    assert (done.exit_code, facts["seeds"], facts["violations"]) == (0, 2, [])
    assert facts.keys() == {"seeds", "asked", "violations", "rebalances", "seconds", "cpu_seconds"}
    assert facts["rebalances"] > 0


def test_both_guarantees_have_the_same_groups():
    options = ("--seed", "3", "--count", "1", "--faults", "--verbose")
    usual, once = (simulate(*options, "--guarantee", name).stderr for name in ("at_least_once", "exactly_once_v2"))
    (_, group, faults, *_), (_, group_once, faults_once, *_) = usual.splitlines(), once.splitlines()
    assert (group_once, faults_once) == (f"{group} exactly_once=True", faults)


def test_a_streams_group_is_simulated_under_both_guarantees():
    for guarantee in ("at_least_once", "exactly_once_v2"):
        words = ("--seed", "5", "--count", "1", "--faults", "--verbose", "--protocol", "streams")
        done = simulate(*words, "--guarantee", guarantee)
        assert done.exit_code == 0
        assert "protocol='streams'" in done.stderr
        assert "P0  assigned  active" in done.stderr
        assert "decides" not in done.stderr, "the coordinator does"


def test_a_failing_streams_group_is_reduced_and_can_be_replayed(monkeypatch, tmp_path):
    (bug,) = [bug for bug in STREAMS_BUGS if bug.name == "the coordinator does not wait for the old owner"]
    kept = tmp_path / "kept.txt"
    with monkeypatch.context() as patch:
        bug.plant(patch)
        done = simulate("--seed", str(bug.first), "--count", "1", "--faults", "--protocol", "streams", "--json")
        kept.write_text(done.stderr)
        assert done.exit_code == 1
        assert f": {bug.invariant}: " in simulate("--replay", str(kept)).stdout
    assert simulate("--replay", str(kept)).stdout.startswith("all held: ")


def test_an_interrupted_run_names_the_protocol(monkeypatch):
    (bug,) = [bug for bug in STREAMS_BUGS if bug.name == "the coordinator does not wait for the old owner"]
    bug.plant(monkeypatch)
    monkeypatch.setattr(work, "play", raising(play, at=2, what=KeyboardInterrupt))
    done = simulate("--count", "9", "--faults", "--protocol", "streams")
    assert "simulate --seed 0 --count 1 --faults --protocol streams" in done.stdout


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("policies",), "simulate policies compares"),
        (("sweep",), "simulate sweep compares"),
        (("--replay", "kept.txt"), "the transcript names the protocol"),
    ],
)
def test_what_has_no_meaning_for_a_streams_group_is_refused(words, error, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--protocol", "streams", *words])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert error in (printed := capsys.readouterr().err)
    assert "leave out --protocol" in printed


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        (("--json", "--replay", "kept.txt"), "--json"),
        (
            ("--replay", "kept.txt", "--verbose", "--seed", "0", "--count", "9", "--faults", "--jobs", "3"),
            "--seed, --count, --faults, --jobs",
        ),
        (
            ("--replay", "kept.txt", "--guarantee", "exactly_once_v2", "--protocol", "classic", "--spark", "local"),
            "--guarantee, --protocol, --spark",
        ),
        (("--json", "probing"), "--json"),
        (("--guarantee", "at_least_once", "--faults", "--seed", "7", "probing"), "--seed, --faults, --guarantee"),
        (("--verbose", "--jobs", "9", "policies"), "--verbose, --jobs"),
        (("--replay", "kept.txt", "--count", "5", "placements"), "--count, --replay"),
        (("--spark", "local", "sweep"), "--spark"),
    ],
)
def test_an_option_without_effect_is_refused(words, left_out, monkeypatch, capsys):
    assert f"leave out {left_out}\n" in refusal(monkeypatch, capsys, *words)


@pytest.mark.parametrize("command", [(), ("sweep",)])
@pytest.mark.parametrize("master", ["nope", "local[x]", "localhost:7077", "spark:7077", ""])
def test_a_wrong_master_is_refused_before_spark_starts(command, master, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_spread", raising(cli._spread, at=1, what=AssertionError))
    assert f"--spark {master!r}: must be local[*], spark://" in refusal(
        monkeypatch, capsys, *command, "--spark", master
    )


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4, 2]", "local-cluster[2,1,1024]", "spark://a:7077,b:7077", "yarn", "k8s://a"],
)
def test_every_master_that_spark_knows_is_allowed(master, monkeypatch):
    masters = []

    def spread(work, items, master):
        masters.append(master)
        return [work(item) for item in items]

    monkeypatch.setattr(cli, "_spread", spread)
    assert simulate("--count", "1", "--spark", master).exit_code == 0
    assert masters == [master]


def refusal(monkeypatch, capsys, *words):
    """Run a wrong call of ``simulate``; return what it prints on standard error."""
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", *words])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    return capsys.readouterr().err


def test_an_interrupted_run_names_the_guarantee(monkeypatch):
    offsets_outside(monkeypatch)
    monkeypatch.setattr(work, "play", raising(play, at=3, what=KeyboardInterrupt))
    done = simulate("--seed", "8", "--count", "9", "--faults", "--guarantee", "exactly_once_v2")
    assert "simulate --seed 8 --count 1 --faults --guarantee exactly_once_v2" in done.stdout


def test_verbose_prints_the_script_of_a_seed_first():
    done = simulate("--seed", "16", "--count", "1", "--faults", "--verbose")
    assert done.stderr.startswith("simulate 16\nscenario ")
    assert "P0  starts" in done.stderr
    assert done.stdout.startswith("1 seed, 0 failed; ")


def test_a_failing_seed_is_reduced_and_can_be_replayed(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        old_owner_ignored(patch)
        done = simulate("--seed", "9", "--count", "1", "--faults", "--json")
        (violation,) = json.loads(done.stdout)["violations"][:1]
        assert (done.exit_code, violation["seed"]) == (1, 9)
        kept = tmp_path / "kept.txt"
        kept.write_text(done.stderr)
        replayed = simulate("--replay", str(kept))
        assert (replayed.exit_code, violation["invariant"] in replayed.stdout) == (1, True)
    mended = simulate("--replay", str(kept))
    assert (mended.exit_code, mended.stdout.startswith("all held: ")) == (0, True)


def test_several_processes_give_the_same_result():
    alone, together = (
        json.loads(simulate("--count", "5", "--faults", "--json", "--jobs", jobs).stdout) for jobs in "12"
    )
    assert [alone[key] for key in ("seeds", "rebalances")] == [together[key] for key in ("seeds", "rebalances")]


def test_a_failing_seed_is_printed_at_once_and_the_others_go_on(monkeypatch):
    old_owner_ignored(monkeypatch)
    done = simulate("--seed", "5", "--count", "3", "--faults")
    assert done.exit_code == 1
    assert "seed 6 failed: one active owner per task and generation: " in done.stderr
    assert done.stdout.startswith("3 seeds, 1 failed (6); ")


def test_an_exception_fails_only_its_seed(monkeypatch):
    monkeypatch.setattr(membership, "read_assignment", raising(membership.read_assignment, at=2))
    done = simulate("--count", "3", "--json")
    broken = json.loads(done.stdout)["violations"]
    assert [violation["invariant"] for violation in broken] == ["nothing raises"]
    assert "TypeError: a bug (test_command.py, wrong)" in broken[0]["detail"]


def test_ctrl_c_prints_the_result_so_far(monkeypatch):
    monkeypatch.setattr(
        membership, "read_assignment", raising(membership.read_assignment, at=40, what=KeyboardInterrupt)
    )
    done = simulate("--count", "100")
    assert done.exit_code == 130
    assert " of 100 seeds, 0 failed; " in done.stdout
    assert "interrupted after" in done.stderr


def raising(real, *, at, what=TypeError):
    """Return ``real`` with an exception in call number ``at``."""
    calls = count(1)

    def wrong(*words, **more):
        if next(calls) == at:
            raise what("a bug")
        return real(*words, **more)

    return wrong


def test_contradicting_options_are_a_wrong_call(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--verbose", "--jobs", "2"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "leave out --jobs" in capsys.readouterr().err


def test_a_missing_transcript_is_a_wrong_call(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--replay", str(tmp_path / "gone.txt")])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "gone.txt: No such file" in capsys.readouterr().err


def test_a_transcript_that_is_no_text_is_a_wrong_call(monkeypatch, capsys, tmp_path):
    (tmp_path / "kept").write_bytes(b"\xff\xfe")
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--replay", str(tmp_path / "kept")])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "kept: it is not UTF-8 text; give a file" in capsys.readouterr().err
