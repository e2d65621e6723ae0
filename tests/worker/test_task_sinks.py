"""What a task may emit to: topics by the names that the program gave them."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import SubtopologyShape, TaskId
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.task_workspace import TaskWorkspace

SINKS = {"words": "app-words-repartition", "seen": "seen"}


def test_a_repartition_topic_goes_by_its_short_name() -> None:
    workspace = TaskWorkspace(TaskId(0, 0), SubtopologyShape(("lines",)), SINKS, None, AtWork(0), {})
    workspace.task.emit("words", b"k", b"1")
    workspace.emit_many([Emitted("seen", b"k", b"2"), Emitted("words", b"k", b"3")])
    assert [(topic, value) for topic, _, value, *_ in workspace.take().emitted] == [
        ("app-words-repartition", b"1"),
        ("seen", b"2"),
        ("app-words-repartition", b"3"),
    ]


def test_its_full_name_is_not_a_sink() -> None:
    workspace = TaskWorkspace(TaskId(0, 0), SubtopologyShape(("lines",)), SINKS, None, AtWork(0), {})
    with pytest.raises(
        ConfigError, match=r"topic 'app-words-repartition': subtopology 0 declares the sinks \['seen', 'words'\]"
    ):
        workspace.task.emit("app-words-repartition", b"k", b"1")
