"""A reduced seed still violates the same invariant, and its transcript can be parsed and replayed."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.faults import NO_FAULTS
from kstreams_assign.sim.play import Script, play
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.shrink import shrink
from kstreams_assign.sim.transcript import script_of, transcript
from tests.samples import sample
from tests.sim.doubles import lease_ignored, old_owner_ignored
from tests.sim.mixed_bugs import java_owner_ignored
from tests.sim.streams_bugs import STREAMS_BUGS


def first_failure():
    played = (play(Script.draw(seed, faults=True)) for seed in range(60))
    return next(outcome for outcome in played if outcome.violations)


@pytest.mark.parametrize("plant", sample([old_owner_ignored, lease_ignored], 1))
def test_only_what_is_needed_is_left(plant, monkeypatch):
    plant(monkeypatch)
    failed = first_failure()
    small = shrink(failed)
    assert small.violations[0].invariant == failed.violations[0].invariant
    assert len(small.script.plan) <= 2
    assert len(small.script.faults.named) <= len(failed.script.faults.named)
    assert len(transcript(play(small.script, logged=True)).splitlines()) < 80


def test_only_the_java_members_that_are_needed_are_left(monkeypatch):
    java_owner_ignored(monkeypatch)
    late = (0, 0, 0, 30_000, 0)
    script = Script(2, Scenario(processes=5, java=(0, 1, 2), late=late), NO_FAULTS, ())
    assert len(shrink(play(script)).script.scenario.java) == 1


def test_a_reduced_streams_group_has_only_settings_that_have_an_effect_there(monkeypatch):
    (bug,) = [bug for bug in STREAMS_BUGS if bug.name == "the coordinator does not wait for the old owner"]
    bug.plant(monkeypatch)
    small = shrink(play(Script.draw(0, faults=True, streams=True)))
    text = transcript(play(small.script, logged=True))
    assert script_of(text) == small.script
    assert small.violations[0].invariant == bug.invariant


@pytest.mark.parametrize("seed", [16, 36])
def test_a_transcript_is_played_again_as_it_is_written(seed):
    script = Script.draw(seed, faults=True)
    assert bool(script.scenario.java) == (seed == 36)
    text = transcript(play(script, logged=True))
    assert script_of("Prose.\n\n" + text) == script
    assert transcript(play(script_of(text), logged=True)) == text
    assert text.splitlines()[-1].startswith("all held: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("scenario\nfaults\n", "not a transcript"),
        ("simulate 1\nscenario speed=9\nfaults\n", "scenario: speed is unknown"),
        ("simulate 1\nscenario\nfaults\nkill 1 after 3\n", "'kill 1 after 3' is not a fault"),
        ("simulate 1\nscenario protocol='consumer'\nfaults\n", "protocol='consumer' is unknown; allowed: classic, st"),
        (
            "simulate 1\nscenario protocol='streams' static=True java=(0,)\nfaults\n",
            "static, java: no effect in a streams group",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(text, reason):
    with pytest.raises(ConfigError, match=reason):
        script_of(text)
