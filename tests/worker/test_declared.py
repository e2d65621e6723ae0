"""What a program declares is checked when it is declared, before there is a broker or a record."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from kstreams_assign import Config, ConfigError, GroupMember, Record, Subtopology, SubtopologyShape, Task, Worker


def count(_task: Task, _records: list[Record]) -> None:
    """Do nothing."""


def config(tmp_path: Path) -> Config:
    return Config(application_id="app", bootstrap_servers="localhost:1", state_dir=str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("first", "second", "topic"),
    [
        (Subtopology(count, sources=["in"]), Subtopology(count, sources=["in"]), "in"),
        (Subtopology(count, sources=["in", "out"]), Subtopology(count, sources=["in"]), "in"),
        (
            Subtopology(count, repartition_sources=["words"]),
            Subtopology(count, repartition_sources=["words"]),
            "app-words-repartition",
        ),
    ],
)
def test_two_subtopologies_that_read_one_topic_are_refused(
    tmp_path: Path, first: Subtopology, second: Subtopology, topic: str
) -> None:
    with pytest.raises(ConfigError, match=f"topic {topic} is read by subtopologies 0 and 1; a topic has one reader"):
        Worker(config(tmp_path), [first, second])
    assert not (tmp_path / "state").exists()


def test_two_shapes_of_a_group_member_that_read_one_topic_are_refused(tmp_path: Path) -> None:
    shape = SubtopologyShape(("in",))
    with pytest.raises(ConfigError, match="topic in is read by subtopologies 0 and 1; a topic has one reader"):
        GroupMember(config(tmp_path), [shape, shape], uuid4())
