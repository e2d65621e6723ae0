"""``inspect --json`` of a streams group (KIP-1071) and Java's ``Admin.describeStreamsGroups``: the same facts.

The group has members in both languages, standbys, and a topology with repartition topics of both kinds and a table
whose source is its changelog.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import Config, Store, Subtopology
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.events import GroupStatusEvent
from kstreams_assign.topology.flows import Repartition
from tests.insight.run import Cli
from tests.java.repartition_app import RepartitionApp
from tests.java.streams_group_shell import JavaAdmin, java_admin
from tests.worker.app import PATIENCE_S, Running
from tests.worker.streams_settings import set_group

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("java_peer")]

Facts = Mapping[str, Any]
GROUP, PREFIX = "described-by-java", "desc"
SIZES = {"lines": 4, "clicks": 2, "customers": 6, "orders": 3, "out": 1}
TASKS = 4 + 4 + 2 + 7 + 3 + 6
ENDPOINT = "127.0.0.1:7001"
ROLES = {"active": "activeTasks", "standby": "standbyTasks", "warmup": "warmupTasks"}
WAIT_S = 0.2


def process(_task: object, _records: object) -> None:
    """Only the topology counts."""


def everything() -> list[Subtopology]:
    """As ``RepartitionApp.java`` has it."""
    return [
        Subtopology(process, repartition_sources=["words"], stores=["counts"]),
        Subtopology(process, sources=[f"{PREFIX}-lines"], sinks=["words"]),
        Subtopology(process, sources=[f"{PREFIX}-clicks"], sinks=["given"]),
        Subtopology(process, repartition_sources=[Repartition("given", 7)], sinks=[f"{PREFIX}-out"]),
        Subtopology(process, sources=[f"{PREFIX}-orders"], sinks=["joined"]),
        Subtopology(
            process,
            sources=[f"{PREFIX}-customers"],
            repartition_sources=["joined"],
            copartitioned=[[f"{PREFIX}-customers", "joined"]],
            stores=[Store("customers", source=f"{PREFIX}-customers")],
            sinks=[f"{PREFIX}-out"],
        ),
    ]


def of_java(described: Facts) -> Facts:
    """Return what Java describes, under the names of ``inspect --json``."""
    return {
        "group": described["groupId"],
        "state": described["groupState"],
        "group_epoch": described["groupEpoch"],
        "assignment_epoch": described["targetAssignmentEpoch"],
        "topology_epoch": described["topologyEpoch"],
        "members": {member["memberId"]: _java_member(member) for member in described["members"]},
        "topology": {sub["subtopologyId"]: _java_subtopology(sub) for sub in described["subtopologies"]},
    }


def _java_member(member: Facts) -> Facts:
    return {
        **{name: member["assignment"][java] for name, java in ROLES.items()},
        "target": {name: member["targetAssignment"][java] for name, java in ROLES.items()},
        "process_id": member["processId"],
        "endpoint": member["userEndpoint"],
        "tags": member["clientTags"],
        "rack": member["rackId"],
        "client_id": member["clientId"],
        "client_host": member["clientHost"],
        "instance_id": member["instanceId"],
        "member_epoch": member["memberEpoch"],
        "topology_epoch": member["topologyEpoch"],
        "is_classic": member["isClassic"],
    }


def _java_subtopology(sub: Facts) -> Facts:
    return {
        "sources": sorted([*sub["sourceTopics"], *sub["repartitionSourceTopics"]]),
        "repartition_sources": sorted(sub["repartitionSourceTopics"]),
        "repartition_sinks": sorted(sub["repartitionSinkTopics"]),
        "changelogs": sorted(sub["stateChangelogTopics"]),
    }


def of_inspect(shown: Facts) -> Facts:
    """Return the facts of ``inspect --json`` that Java has, too. The order of tasks and topics does not count."""
    return {
        **{name: shown[name] for name in ("group", "state", "group_epoch", "assignment_epoch", "topology_epoch")},
        "members": {
            member["member_id"]: _shown_member(process, member)
            for process in shown["processes"]
            for member in process["members"]
        },
        "topology": {
            sub["subtopology"]: {name: sorted(topics) for name, topics in sub.items() if name != "subtopology"}
            for sub in shown["topology"]
        },
    }


def _shown_member(process: Facts, member: Facts) -> Facts:
    """``to_revoke`` and ``awaited`` follow from the rest."""
    own = {name: fact for name, fact in member.items() if name not in ("member_id", "to_revoke", "awaited")}
    return {
        **own,
        **{name: sorted(member[name]) for name in ROLES},
        "target": {name: sorted(tasks) for name, tasks in member["target"].items()},
        **{name: process[name] for name in ("process_id", "endpoint", "tags", "rack")},
    }


class Looks:
    """Looks with both, as often as asked. A look counts if the group was the same before and after."""

    def __init__(self, admin: JavaAdmin, run: Cli, broker: str) -> None:
        self._admin, self._run, self._broker = admin, run, broker
        self.states: set[str] = set()
        """Those that both have shown."""

    def compare(self, group: str) -> Facts | None:
        """Return what both show; None if the group changed meanwhile."""
        before = of_java(self._admin.describe(group))
        shown = of_inspect(self._run("inspect", group, "-b", self._broker, "--json").facts)
        if of_java(self._admin.describe(group)) != before:
            return None
        assert shown == before
        self.states.add(shown["state"])
        return shown

    def until(self, group: str, is_so: Callable[[Facts], bool]) -> Facts:
        """Compare until a group is so."""
        deadline = time.monotonic() + 25
        while (shown := self.compare(group)) is None or not is_so(shown):
            assert time.monotonic() < deadline, shown
            threading.Event().wait(WAIT_S)
        return shown


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def looks(broker: str, run: Cli) -> Iterator[Looks]:
    with java_admin(broker) as admin:
        yield Looks(admin, run, broker)


def python(
    broker: str,
    group: str,
    folder: Path,
    topology: Sequence[Subtopology],
    description: str | None = None,
    endpoint: str | None = None,
) -> Running:
    config = Config(
        application_id=group,
        bootstrap_servers=broker,
        state_dir=str(folder),
        group_protocol="streams",
        session_timeout_ms=30_000,
        application_server=endpoint,
        client_tags={"zone": "a"},
        client_rack="rack-a",
    )
    return Running(config, topology, topology_description=description)


def has_tasks(shown: Facts, members: int) -> bool:
    """Return whether this many members have all tasks."""
    active = [task for member in shown["members"].values() for task in member["active"]]
    return shown["state"] == "Stable" and len(shown["members"]) == members and len(active) == TASKS


def test_each_moment_of_a_mixed_group_is_what_java_describes(
    broker: str, looks: Looks, ends: ExitStack, tmp_path: Path
) -> None:
    """Alone, while tasks move, at rest with standbys, and empty."""
    ClusterAdmin(broker).create_topics({f"{PREFIX}-{name}": count for name, count in SIZES.items()}, PATIENCE_S)
    set_group(broker, GROUP, **{"num.standby.replicas": 1})
    java = RepartitionApp(broker, GROUP, tmp_path / "java", "everything", PREFIX, {"group.protocol": "streams"})
    ends.callback(java.close)
    java.until_tasks(active=TASKS)
    looks.until(GROUP, lambda shown: has_tasks(shown, members=1))
    ours = python(broker, GROUP, tmp_path / "python", everything(), java.describe(), ENDPOINT)
    ends.callback(ours.stop)
    shown = looks.until(GROUP, lambda shown: has_tasks(shown, members=2))
    assert {"Reconciling", "Stable"} <= looks.states
    assert {member["endpoint"] for member in shown["members"].values()} == {None, ENDPOINT}
    assert all(member["active"] and member["standby"] for member in shown["members"].values())
    changelogs = {log for sub in shown["topology"].values() for log in sub["changelogs"]}
    assert changelogs == {f"{GROUP}-counts-changelog", f"{PREFIX}-customers"}
    ours.stop()
    java.close()
    assert looks.until(GROUP, lambda shown: shown["state"] == "Empty")["members"] == {}


def test_a_group_without_its_source_topic_is_what_java_describes(
    broker: str, looks: Looks, ends: ExitStack, tmp_path: Path
) -> None:
    """Without an endpoint: Kafka 4.3.1 fails at a heartbeat with one while a source topic is missing."""
    group = "described-not-ready"
    ours = python(broker, group, tmp_path, [Subtopology(process, sources=[f"{group}-absent"])])
    ends.callback(ours.stop)
    ours.until_event(GroupStatusEvent)
    assert looks.until(group, lambda shown: bool(shown["members"]))["state"] == "NotReady"
