"""Every transcript answers as it is written. ``REWRITE=1 pytest tests/scenarios`` writes the answers anew: read the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.transcripts import rerun

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_answers_as_it_is_written(path):
    written = path.read_text(encoding="utf-8")
    now = rerun(written)
    if os.environ.get("REWRITE"):
        path.write_text(now, encoding="utf-8")
    else:
        assert now == written
