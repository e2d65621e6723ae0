"""A failing seed made small still fails in the same way, and its transcript can be read and played again."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.play import Script, play
from kstreams_assign.sim.shrink import shrink
from kstreams_assign.sim.transcript import script_of, transcript
from tests.sim.bugs import lease_ignored, nobody_waits


def first_failure():
    played = (play(Script.draw(seed, faults=True)) for seed in range(60))
    return next(one for one in played if one.violations)


@pytest.mark.parametrize("plant", [nobody_waits, lease_ignored])
def test_only_what_is_needed_is_left(plant, monkeypatch):
    plant(monkeypatch)
    failed = first_failure()
    small = shrink(failed)
    assert small.violations[0].invariant == failed.violations[0].invariant
    assert len(small.script.plan) <= 2
    assert len(small.script.faults.named) <= len(failed.script.faults.named)
    assert len(transcript(play(small.script, told=True)).splitlines()) < 80


def test_a_transcript_is_played_again_as_it_is_written():
    script = Script.draw(16, faults=True)
    text = transcript(play(script, told=True))
    assert script_of("Prose.\n\n" + text) == script
    assert transcript(play(script_of(text), told=True)) == text
    assert text.splitlines()[-1].startswith("all held: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("scenario\nfaults\n", "no transcript"),
        ("simulate 1\nscenario speed=9\nfaults\n", "scenario has no speed"),
        ("simulate 1\nscenario\nfaults\nkill 1 after 3\n", "'kill 1 after 3' is no fault"),
    ],
)
def test_what_cannot_be_read_is_refused(text, reason):
    with pytest.raises(ConfigError, match=reason):
        script_of(text)
