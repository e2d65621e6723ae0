"""A global table beside a real Java application that has one, too: Java gives it a number, so the others shift."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from kstreams_assign import GlobalTable
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.events import AdoptedEvent, DecisionEvent
from kstreams_assign.topology.described import read_description
from tests.java.repartition_app import RepartitionApp
from tests.worker.app import PATIENCE_S, Running, send_words
from tests.worker.test_repartition_with_java import PARTITIONS, Words, settings, words_of

NAMES = [(b"ch", b"Switzerland"), (b"it", b"Italy"), (b"fr", b"France")]


class WordsBesideNames(Words):
    """The words of lines are counted, and both languages hold the names."""

    def java(self) -> RepartitionApp:
        app = RepartitionApp(self.broker, self.name, self.folder / "java", "global", self.name)
        self._ends.callback(app.close)
        return app

    def python(self, description: str) -> Running:
        worker = Running(
            settings(self.broker, self.name, self.folder / "python"),
            words_of(self.name),
            topology_description=description,
            global_tables=[GlobalTable("names", topic=f"{self.name}-names")],
        )
        self._ends.callback(worker.stop)
        return worker


@pytest.mark.usefixtures("java_peer")
def test_tasks_have_javas_numbers_in_a_group_of_both_languages(broker: str, tmp_path: Path) -> None:
    with ExitStack() as ends:
        words = WordsBesideNames(broker, "words-beside-names", tmp_path, ends)
        names = f"{words.name}-names"
        ClusterAdmin(broker).create_topics({names: 2}, PATIENCE_S, configs={names: {"cleanup.policy": "compact"}})
        send_words(broker, names, NAMES, {})
        java = words.java()
        java.until_tasks(active=2 * PARTITIONS)
        words.count_more()
        description = java.describe()
        numbered = read_description(description, "Java's")
        assert [number for number, sub in enumerate(numbered) if sub.is_global] != [2], "the others shift"
        ours = words.python(description)
        ours.until_running(PARTITIONS)
        java.until_tasks(active=PARTITIONS)
        words.count_more()
        with_tasks = {str(number) for number, sub in enumerate(numbered) if not sub.is_global}
        ids = {*java.active, *ours.reported(AdoptedEvent)[-1].came}
        assert {task.split("_")[0] for task in ids} == with_tasks
        assert dict(ours.worker.global_table("names").range()) == dict(NAMES)
        java.close()
        ours.until_running(2 * PARTITIONS)
        words.count_more()
        restarted = words.java()
        restarted.until(lambda _: len(restarted.active) == PARTITIONS)
        decisions = ours.reported(DecisionEvent)
        assert decisions, "Python leads"
        assert not [text for decision in decisions for text in decision.warnings if "another topology" in text]
        words.count_more()
