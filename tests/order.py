"""In what order tests run, and which of them share a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    ("tests/docker/", "tests/mixed/", "tests/releases/"),
    ("tests/history/",),
    ("tests/docs_site/test_build.py", "tests/docs_site/test_reference.py"),
)
"""In a run by several processes one process gets all tests of such a group, and these come first. They share something
slow to start (Spark, the built site), or keep a machine busy (containers, Java)."""

LONG = (
    "tests/worker/crash/",
    "tests/worker/test_access.py",
    "tests/test_plain_install.py",
    "tests/test_wheel.py",
    "tests/processes/",
    "tests/worker/test_warm_",
    "tests/worker/test_streams_group_",
    "tests/worker/test_timers_on_a_broker.py",
    "tests/worker/test_with_java.py",
    "tests/adapters/test_kafka_python_connections.py",
)
"""These take longest, so they come next, and none is the last. The tests of every other file stay together, too."""

AT_ONCE = 2
"""So many processes at most run such tests while others are left: three at once keep brokers from their work."""


def place(nodeid: str) -> int:
    """Return the number of a test's group in the order of a run."""
    groups = (*TOGETHER, LONG)
    return next((at for at, files in enumerate(groups) if nodeid.startswith(files)), len(groups))


def is_heavy(nodeid: str) -> bool:
    """Whether a test is in a group, or is one of the longest."""
    return place(nodeid) <= len(TOGETHER)


class ByFile(LoadScopeScheduling):
    """Assigns tests to processes, those of a file or of a group together.

    xdist's own groups do not know the test ids of this pytest, and a test that ended its process would begin again in
    the next one, and end that, too.
    """

    def _split_scope(self, nodeid: str) -> str:
        at = place(nodeid)
        return str(at) if at < len(TOGETHER) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        busy = sum(any(is_heavy(test) for _, test in _left(groups)) for groups in self.assigned_work.values())
        light = [scope for scope, group in self.workqueue.items() if not is_heavy(next(iter(group)))]
        if busy >= AT_ONCE and light:
            self.workqueue.move_to_end(light[0], last=False)
        super()._assign_work_unit(node)

    def under_way(self) -> list[str]:
        """The test that each process has to finish next."""
        return [test for groups in self.assigned_work.values() for _, test in _left(groups)[:1]]

    def remove_node(self, node: Any) -> str | None:
        """Take a process out that ended, and return the test in which it did so; that test does not run again."""
        groups = self.assigned_work[node]
        left = _left(groups)
        for group, running in left[:1]:
            group[running] = True
        if left[1:]:
            super().remove_node(node)
        else:
            del self.assigned_work[node]
        return left[0][1] if left else None


def _left(groups: Mapping[str, dict[str, bool]]) -> list[tuple[dict[str, bool], str]]:
    """The tests of a process that have not ended, in their order, each with its group."""
    return [(group, test) for group in groups.values() for test, done in group.items() if not done]
