"""Each transcript gives its written answers. ``REWRITE=1 pytest tests/scenarios`` rewrites them: read the diff."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.scenarios.learners_on_the_wire import LearnersOnTheWire
from tests.scenarios.transcripts import rerun
from tests.sim.bugs import BUGS, RARE_BUGS
from tests.sim.streams_bugs import STREAMS_BUGS

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
SIMULATED = [path for path in TRANSCRIPTS if path.stem.startswith("simulated_")]


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_gives_its_written_answers(path):
    written = path.read_text(encoding="utf-8")
    now = rerun(written)
    if os.environ.get("REWRITE"):
        path.write_text(now, encoding="utf-8")
    else:
        assert now == written


@pytest.mark.parametrize("path", SIMULATED, ids=lambda path: path.stem)
def test_a_reduced_seed_fails_again_with_its_planted_bug(path, monkeypatch):
    written = path.read_text(encoding="utf-8")
    assert "\nall held: " in written
    name = re.search(r"Planted bug: (.+)\.$", written, re.MULTILINE)
    (bug,) = [bug for bug in (*BUGS, *RARE_BUGS, *STREAMS_BUGS) if name and bug.name == name[1]]
    bug.plant(monkeypatch)
    assert re.search(rf"^violated at \d+: {bug.invariant}: ", rerun(written), re.MULTILINE)


def test_the_learners_walk_through_gives_the_same_answers_over_the_wire():
    """Real members, leader, assignor and bytes, in simulated time: exactly four rebalances."""
    written = (Path(__file__).parent / "learner_scale_up.txt").read_text(encoding="utf-8")
    assert rerun(written, LearnersOnTheWire) == written


def test_the_seeds_cases_have_transcripts():
    names = {
        "learner_scale_up",
        "scaling_in_standbys_in_sync",
        "scaling_in_standbys_lagging",
        "scaling_out",
        "stateless_stays",
    }
    assert names <= {path.stem for path in TRANSCRIPTS}


GROUP = """Prose, and an empty line.

group standbys=0
I1: active T1 T2
----

join I2
----

propose high_availability
----
"""
ANSWER = """         I1      I2
active   T1, T2
warm-up          T2
a probing rebalance follows
"""


def test_only_answers_are_rewritten():
    assert rerun(GROUP) == rerun(GROUP + "nonsense\n") == GROUP + ANSWER
    assert rerun(GROUP + ANSWER) == GROUP + ANSWER


def test_input_is_kept_and_compared_but_never_rewritten():
    table = "kip First Rebalance\n         I1      I2\nactive   T1      T2\nstandby\n----\n"
    output = rerun(f"{GROUP}{ANSWER}\n{table}the same\n")
    assert output == f"{GROUP}{ANSWER}\n{table}I1 active: here T1, T2\nI2 active: here nothing\nI2 standby: here T2\n"
    same = table.replace("T1      T2\nstandby", "T1, T2\nstandby          T2")
    assert rerun(f"{GROUP}{ANSWER}\n{same}") == f"{GROUP}{ANSWER}\n{same}the same\n"


def test_the_seeds_lines_are_compared_each_alone():
    lines = ["S1(assigned: [T1], revoked: [], learning: []) // a remark", "S9(assigned: [], revoked: [], learning: [])"]
    members = "members S1[T1], S2[T2]\n----\n\n"
    joined = f"members join\n{lines[0]}\n{lines[1]}\n----\n"
    output = f"here: S2(assigned: [T2], revoked: [], learning: [])\nnot here: {lines[1]}\n"
    assert rerun(members + joined) == members + joined + output


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("asign sticky\n----\n", "'asign sticky' is no command"),
        ("group\nI1: idle T1\n----\n", "'idle' in .* is no role"),
    ],
)
def test_what_cannot_be_read_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        rerun(text)
