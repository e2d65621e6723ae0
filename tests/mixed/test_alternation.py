"""Leadership passes between Java and Python, five times under load, and no task moves because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mixed.alternation import bucket, play


@pytest.mark.timeout(600)  # the number of rejoins until the intended member leads next is random
def test_leadership_alternates_and_no_task_moves(
    broker: str,
    java_peer: object,  # noqa: ARG001  # says whether Java can be compiled
    tmp_path: Path,
) -> None:
    story = play(broker, tmp_path, "alternation")
    print(story.transcript(numbered=True))
    assert story.transcript(numbered=False) == Path(__file__).with_name("alternation.txt").read_text(encoding="utf-8")
    assert [scene.generation for scene in story.scenes] == sorted({scene.generation for scene in story.scenes})
    assert story.moves == ()
    assert (story.counts.lost, story.counts.twice, story.counts.went_back) == (0, 0, 0)


def test_a_bucket_is_java_s() -> None:
    """``"a".hashCode()`` is 97; that of ``"polygenelubricants"`` is the smallest of all: its high half counts, too."""
    assert bucket("a") == 97 % 16
    assert bucket("polygenelubricants") == (0x8000_0000 ^ 0x8000) % 16
    assert bucket("kafka") == (101_807_910 ^ (101_807_910 >> 16)) % 16
