"""A topology that is given: the topics that it reads are looked up, also those that no member subscribes to (yet)."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition

from kstreams_assign.adapters.confluent import ClusterAdmin
from tests.insight.run import Cli
from tests.insight.test_wrong_groups import SECONDS, consumer, until_assigned
from tests.worker.app import PARTITIONS, App

PLANNED = """
[[topology.subtopology]]
sources = ["{group}-in", "{group}-missing"]
stores = ["totals"]
[[topology.subtopology]]
sources_pattern = "{group}-region-.*"
"""


def test_topics_of_a_group_without_members_are_looked_up(broker: str, run: Cli, tmp_path: Path) -> None:
    group = "planned-empty"
    ClusterAdmin(broker).create_topics({f"{group}-region-eu": 1}, SECONDS)
    with consumer(broker, group) as member:
        until_assigned(member, f"{group}-in")
        member.commit(offsets=[TopicPartition(f"{group}-in", 0, 0)], asynchronous=False)
    given, saved = tmp_path / "planned.toml", tmp_path / "group.json"
    given.write_text(PLANNED.format(group=group))
    live = run("inspect", group, "-b", broker, "--topology", given, "--json", "--save", saved).facts
    assert (live["state"], live["processes"]) == ("Empty", [])
    said = f"{given} names topics that do not exist: {group}-missing; they count as empty"
    assert live["assumed"]["topology"] == said
    later = run("inspect", saved, "--topology", given, "--json").facts
    assert later["assumed"]["topology"] == said.replace("do not exist", "are not in the snapshot")
    assert "assumptions: --assumptions lists them" in run("inspect", saved).out
    listed = run("inspect", saved, "--topology", given, "--assumptions").out
    assert f"{group}-missing" in listed
    assert "max_warmup_replicas: 2, the default" in listed


def test_a_topology_that_is_not_deployed_yet_is_played_with_the_topics_that_it_reads(
    app: App, run: Cli, tmp_path: Path
) -> None:
    app.start(1).until_running(PARTITIONS)
    ClusterAdmin(app.broker).create_topics({f"{app.name}-planned": 3}, SECONDS)
    given = tmp_path / "planned.toml"
    sources = f'sources = ["{app.name}"]\nstores = ["totals"]\n'
    given.write_text(f'[[topology.subtopology]]\n{sources}[[topology.subtopology]]\nsources = ["{app.name}-planned"]\n')
    facts = run("what-if", app.name, "-b", app.broker, "--topology", given, "--add", 1, "--json").facts
    assert facts["tasks"] == PARTITIONS + 3
    assert "topology" not in facts["assumed"]
