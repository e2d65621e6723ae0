"""A transcript that is not allowed is refused with its line, and every script that is drawn can be written and read."""

from __future__ import annotations

import re

import pytest

from kstreams_assign import cli
from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.play import Script
from kstreams_assign.sim.transcript import given, script_of

NAMES = "allowed: least_movement, high_availability, sticky"


def scenario(settings):
    return f"simulate 1\nscenario {settings}\nfaults\n"


def fault(text):
    return f"simulate 1\nscenario processes=2 late=(0,0)\nfaults kill=0.1\nkill 0 at 5 for 50\n{text}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("simulate x\nscenario\nfaults\n", "line 1: 'simulate x': write simulate SEED"),
        ("Prose.\n\nsimulate \nscenario\nfaults\n", "line 3: 'simulate ': write simulate SEED"),
        ("simulate 1 2\nscenario\nfaults\n", "line 1: 'simulate 1 2': write simulate SEED"),
        ("simulate 1\nfaults\nscenario\n", "line 2: 'faults': this line must begin with scenario"),
        ("simulate 1\n\nscenario\nfaults\n", "line 2: '': this line must begin with scenario"),
        (scenario("processes"), "line 2: scenario: 'processes': write NAME=VALUE"),
        (scenario("speed=9"), "line 2: scenario: speed is unknown"),
        (scenario("processes=foo"), "line 2: scenario: processes=foo: must be a whole number >= 1"),
        (scenario("processes={[]:1}"), "line 2: scenario: processes={[]:1}: must be a whole number >= 1"),
        (scenario('processes="a"'), 'line 2: scenario: processes="a": must be a whole number >= 1'),
        (scenario("processes=True"), "line 2: scenario: processes=True: must be a whole number >= 1"),
        (scenario("processes=0"), "line 2: scenario: processes=0: must be a whole number >= 1"),
        (
            scenario("processes=2"),
            "line 2: scenario: processes=2, but late=(0, 0, 0) has 3 starts; give a start for each",
        ),
        (scenario("late=(0,-1,0)"), "line 2: scenario: late=(0,-1,0): must be a tuple of whole numbers >= 0"),
        (
            scenario("late=(0, 0, 0)"),
            "line 2: scenario: late=(0,: must be a tuple of whole numbers >= 0, without spaces",
        ),
        (scenario("late=0"), "line 2: scenario: late=0: must be a tuple of whole numbers >= 0"),
        (scenario("java=(0,3)"), "line 2: scenario: java: place 3 of 3; places are counted from 0"),
        (scenario("assignor='foo'"), f"line 2: scenario: assignor='foo' is unknown; {NAMES}"),
        (scenario("assignor=[]"), f"line 2: scenario: assignor=[] is unknown; {NAMES}"),
        (scenario("static=3"), "line 2: scenario: static=3: must be True or False"),
        (scenario("safety_ms=-5"), "line 2: scenario: safety_ms=-5: must be a whole number >= 1"),
        (scenario("commit_interval_ms=0"), "line 2: scenario: commit_interval_ms=0: must be a whole number >= 1"),
        (scenario("session_timeout_ms=9"), "line 2: scenario: session_timeout_ms=9: must be a whole number >= 1000"),
        (scenario("restored_per_s=0"), "line 2: scenario: restored_per_s=0: must be a whole number >= 1"),
        (scenario("standbys=-1"), "line 2: scenario: standbys=-1: must be a whole number >= 0"),
        ("simulate 1\nscenario\nfaults kill=2.0\n", "line 3: faults: kill=2.0: must be a probability from 0 to 1"),
        ("simulate 1\nscenario\nfaults kill='a'\n", "line 3: faults: kill='a': must be a probability from 0 to 1"),
        (fault("kill 1 at x for 2"), "line 5: 'kill 1 at x for 2' is not a fault; write KIND PLACE at MS for MS"),
        (fault("kill 1 at -1 for 2"), "line 5: 'kill 1 at -1 for 2' is not a fault"),
        (fault("kill 1 at 1 for 2 3"), "line 5: 'kill 1 at 1 for 2 3' is not a fault"),
        (fault(f"kill 1 at 1 for {'9' * 5_000}"), "line 5: 'kill 1 at 1 for 9"),
        (fault("smile 1 at 1 for 2"), "line 5: 'smile 1 at 1 for 2' is not a fault"),
        (fault("\nkill 2 at 1 for 2"), "line 6: 'kill 2 at 1 for 2': place 2 of 2; places are counted from 0"),
    ],
)
def test_a_line_that_is_not_allowed_is_refused(text, reason):
    with pytest.raises(ConfigError, match=re.escape(f"transcript, {reason}")):
        script_of(text)


def test_a_wrong_transcript_is_a_wrong_call(monkeypatch, capsys, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text(scenario("processes=foo"))
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "--replay", str(kept)])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "transcript, line 2: scenario: processes=foo" in capsys.readouterr().err


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("exactly_once", [False, True])
def test_every_script_that_is_drawn_can_be_read(exactly_once, streams):
    for seed in range(200):
        script = Script.draw(seed, faults=True, exactly_once=exactly_once, streams=streams)
        assert script_of("\n".join(given(script))) == script
