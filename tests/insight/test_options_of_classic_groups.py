"""The brokers know topology and settings of a streams group: what the caller gives of them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.observe.streams_saved import streams_snapshot_text
from tests.insight.run import Cli
from tests.insight.test_what_if import TWO_MEMBERS

TOPOLOGY = '[[topology.subtopology]]\nsources = ["orders"]\n'
KNOWS_TOPOLOGY = "--topology: not for a group of the streams protocol; the broker knows the topology"
KNOWS_SETTINGS = "not for a group of the streams protocol; the broker knows the settings"


@pytest.mark.parametrize(
    ("command", "option", "value", "says"),
    [
        ("inspect", "--topology", "topology.toml", KNOWS_TOPOLOGY),
        ("inspect", "--set", "num_standby_replicas=1", f"--set: {KNOWS_SETTINGS}"),
        ("what-if", "--topology", "topology.toml", KNOWS_TOPOLOGY),
        ("what-if", "--current", "num_standby_replicas=1", f"--current: {KNOWS_SETTINGS}"),
    ],
)
def test_what_the_broker_of_a_streams_group_knows_is_refused(
    run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str, value: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("topology.toml").write_text(TOPOLOGY)
    Path("group.json").write_text(streams_snapshot_text(TWO_MEMBERS))
    done = run(command, "group.json", option, value)
    assert (done.status, done.out, says in done.err) == (2, "", True)


def test_nothing_is_saved_of_a_group_that_is_refused(run: Cli, tmp_path: Path) -> None:
    file, copy = tmp_path / "group.json", tmp_path / "copy.json"
    file.write_text(streams_snapshot_text(TWO_MEMBERS))
    assert run("inspect", file, "--save", copy, "--set", "num_standby_replicas=1").status == 2
    assert not copy.exists()
