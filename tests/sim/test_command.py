"""``kstreams-assign simulate``: what it prints, and its exit status."""

from __future__ import annotations

import json
from itertools import count

import pytest
from typer.testing import CliRunner

from kstreams_assign import cli
from kstreams_assign.sim import membership
from tests.sim.bugs import nobody_waits


def simulate(*words):
    return CliRunner().invoke(cli.app, ["simulate", *words])


def test_the_facts_as_json():
    done = simulate("--seed", "3", "--count", "2", "--faults", "--json")
    facts = json.loads(done.stdout)
    assert (done.exit_code, facts["seeds"], facts["violations"]) == (0, 2, [])
    assert facts.keys() == {"seeds", "asked", "violations", "rebalances", "seconds", "cpu_seconds"}
    assert facts["rebalances"] > 0


def test_the_seed_and_what_is_drawn_from_it_are_told_first():
    done = simulate("--seed", "16", "--count", "1", "--faults", "--verbose")
    assert done.stderr.startswith("simulate 16\nscenario ")
    assert "P0  starts" in done.stderr
    assert done.stdout.startswith("1 seeds, 0 failed; ")


def test_a_failing_seed_is_made_small_and_can_be_played_again(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        nobody_waits(patch)
        done = simulate("--seed", "3", "--count", "1", "--faults", "--json")
        (violation,) = json.loads(done.stdout)["violations"][:1]
        assert (done.exit_code, violation["seed"]) == (1, 3)
        kept = tmp_path / "kept.txt"
        kept.write_text(done.stderr)
        again = simulate("--replay", str(kept))
        assert (again.exit_code, violation["invariant"] in again.stdout) == (1, True)
    mended = simulate("--replay", str(kept))
    assert (mended.exit_code, mended.stdout.startswith("all held: ")) == (0, True)


def test_several_processes_find_what_one_finds():
    one, two = (json.loads(simulate("--count", "5", "--faults", "--json", "--jobs", jobs).stdout) for jobs in "12")
    assert [one[key] for key in ("seeds", "rebalances")] == [two[key] for key in ("seeds", "rebalances")]


def test_a_seed_that_fails_is_told_at_once_and_the_others_are_played(monkeypatch):
    nobody_waits(monkeypatch)
    done = simulate("--seed", "2", "--count", "3", "--faults")
    assert done.exit_code == 1
    assert "seed 3 failed: one active owner per task and generation: " in done.stderr
    assert done.stdout.startswith("3 seeds, 1 failed (3); ")


def test_an_error_in_our_rules_is_that_seeds_alone(monkeypatch):
    monkeypatch.setattr(membership, "read_assignment", raising(membership.read_assignment, at=2))
    done = simulate("--count", "3", "--json")
    broken = json.loads(done.stdout)["violations"]
    assert [one["invariant"] for one in broken] == ["nothing raises"]
    assert "TypeError: a bug (test_command.py, wrong)" in broken[0]["detail"]


def test_ctrl_c_tells_what_was_played(monkeypatch):
    monkeypatch.setattr(
        membership, "read_assignment", raising(membership.read_assignment, at=40, what=KeyboardInterrupt)
    )
    done = simulate("--count", "100")
    assert done.exit_code == 130
    assert " of 100 seeds, 0 failed; " in done.stdout
    assert "interrupted after" in done.stderr


def raising(real, *, at, what=TypeError):
    """Does what ``real`` does, but for the call number ``at``."""
    calls = count(1)

    def wrong(*words, **more):
        if next(calls) == at:
            raise what("a bug")
        return real(*words, **more)

    return wrong


def test_words_that_do_not_go_together_are_a_wrong_call(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--verbose", "--jobs", "2"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "leave out --jobs" in capsys.readouterr().err


def test_a_transcript_that_is_not_there_is_a_wrong_call(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--replay", str(tmp_path / "gone.txt")])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "gone.txt: No such file" in capsys.readouterr().err
