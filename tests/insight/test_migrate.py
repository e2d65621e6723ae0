"""A group of real members changes its protocol and goes back; the command says before each step what stands in the way.

Its changelog goes on from where it was: no count is lost or begins again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kstreams_assign.cli import app as command_line
from kstreams_assign.errors import ConfigError
from kstreams_assign.insight.migrate import Asked, look
from tests.worker.app import PARTITIONS, App
from tests.worker.streams_settings import set_group
from tests.worker.test_with_java import Mixed, mixed  # noqa: F401  # the fixture

WORDS = [b"word-%d" % (n % 97) for n in range(1_000)]


def migrate(group: str, to: str, broker: str, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_line, ["migrate", group, "--to", to, "-b", broker, *words])
    return result.exit_code, result.output


def test_a_worker_goes_from_classic_to_streams_and_back(broker: str, tmp_path: Path) -> None:
    app, settings = App(broker, "migrated", tmp_path), tmp_path / "worker.toml"
    settings.write_text(
        f'application_id = "{app.name}"\nbootstrap_servers = "{broker}"\nnum_standby_replicas = 1\n'
        '[[topology.subtopology]]\nsources = ["migrated"]\nstores = ["totals"]\n'
    )
    try:
        for protocol, other in (("classic", "streams"), ("streams", "classic"), ("classic", "streams")):
            worker = app.start(1, group_protocol=protocol)
            app.send(WORDS)
            worker.until_running(PARTITIONS)
            app.until_counted()
            app.until_committed()
            status, text = migrate(app.name, other, broker)
            assert status == 1
            assert "1 member is in the group: " in text
            worker.stop()
            status, text = migrate(app.name, other, broker, "--config", str(settings))
            assert status == 0
            assert f"migrated: {protocol}, to the {other} protocol\nstands in the way:\n - nothing\n" in text
            assert f"committed offsets of {PARTITIONS} partitions" in text
            assert ("streams.num.standby.replicas=1" in text) == (other == "streams")
    finally:
        app.stop()
    status, text = migrate(app.name, "streams", broker, "--json")
    assert (status, json.loads(text)["internal_topics"]) == (0, ["migrated-totals-changelog"])


@pytest.mark.parametrize("topology", ['"t"', "[1]", '{subtopology = "t"}', "{subtopology = [1]}"])
def test_a_topology_that_is_none_is_a_wrong_setting(topology: str, tmp_path: Path) -> None:
    settings = tmp_path / "worker.toml"
    settings.write_text(f'application_id = "app"\nbootstrap_servers = "localhost:1"\ntopology = {topology}\n')
    with pytest.raises(ConfigError, match=r"worker\.toml: topology: write a \[\[topology\.subtopology\]\] table"):
        look(Asked("app", "streams", "localhost:1", settings, {}, 1.0))


def test_java_goes_from_classic_to_streams_and_back_with_python_beside_it(mixed: Mixed) -> None:  # noqa: F811
    set_group(mixed.broker, mixed.name, heartbeat_interval_ms=500)
    for protocol in ("classic", "streams", "classic"):
        java = mixed.java(group_protocol=protocol)
        java.until_tasks(active=4)
        mixed.count_more()
        assert migrate(mixed.name, "streams" if protocol == "classic" else "classic", mixed.broker)[0] == 1
        ours = mixed.python(group_protocol=protocol)
        ours.until_running(2)
        mixed.count_more()
        ours.stop()
        java.close()
        if protocol == "classic":  # Java members stay in a classic group until their session ends
            continue
        assert migrate(mixed.name, "classic", mixed.broker)[0] == 0


def test_a_wrong_protocol_is_refused(broker: str) -> None:
    result = CliRunner().invoke(command_line, ["migrate", "app", "--to", "consumer", "-b", broker])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == "--to consumer: must be streams or classic"


pytestmark = pytest.mark.timeout(400)
