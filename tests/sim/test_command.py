"""``kstreams-assign simulate``: what it prints, and its exit status."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from kstreams_assign import cli
from tests.sim.bugs import nobody_waits


def simulate(*words):
    return CliRunner().invoke(cli.app, ["simulate", *words])


def test_the_facts_as_json():
    done = simulate("--seed", "3", "--count", "2", "--faults", "--json")
    facts = json.loads(done.stdout)
    assert (done.exit_code, facts["seeds"], facts["violations"]) == (0, 2, [])
    assert facts.keys() == {"seeds", "violations", "rebalances", "seconds"}
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


def test_a_transcript_that_is_not_there_is_a_wrong_call(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--replay", str(tmp_path / "gone.txt")])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "gone.txt: No such file" in capsys.readouterr().err
