"""The files for Kubernetes and systemd name what there is: paths, ports, commands, and settings that a worker takes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from configparser import RawConfigParser
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from typer.testing import CliRunner

from kstreams_assign.cli import COMMANDS, EXIT_STATUS
from kstreams_assign.cli import app as command_line
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import HostInfo
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.status.server import PATHS

EXAMPLES = Path(__file__).parent.parent / "examples"
MANIFESTS = (EXAMPLES / "kubernetes" / "workers.yaml").read_text(encoding="utf-8")
NOTES = (EXAMPLES / "kubernetes" / "README.md").read_text(encoding="utf-8")
UNIT = (EXAMPLES / "systemd" / "kstreams-assign@.service").read_text(encoding="utf-8")
HISTORY_UNIT = (EXAMPLES / "systemd" / "kstreams-assign-history.service").read_text(encoding="utf-8")


@pytest.fixture
def settings(tmp_path):
    """The worker's file in the ConfigMap, as pod number 0 gets it."""
    (block,) = re.findall(r"^  worker\.toml: \|\n((?:    .*\n|\n)+)", MANIFESTS, re.MULTILINE)
    (tmp_path / "worker.toml").write_text(dedent(block))
    overrides = [text.replace("$(POD)", "order-workers-0") for text in re.findall(r"- --set=(.+)", MANIFESTS)]
    return SidecarSettings.from_toml(tmp_path / "worker.toml", overrides)


def values_of(key: str) -> set[str]:
    """Every value of a key in the manifests."""
    return set(re.findall(rf"^[ -]*{re.escape(key)}: (.+?)(?: #.*)?$", MANIFESTS, re.MULTILINE))


def test_the_manifests_are_three_documents_of_clean_lines():
    documents = MANIFESTS.split("\n---\n")
    assert [re.findall(r"^kind: (\w+)$", document, re.MULTILINE) for document in documents] == [
        ["ConfigMap"],
        ["Service"],
        ["StatefulSet"],
    ]
    assert not re.search(r"\t| $", MANIFESTS, re.MULTILINE)
    odd = [line for line in MANIFESTS.splitlines() if (len(line) - len(line.lstrip(" "))) % 2]
    assert odd == []


def test_the_probes_ask_for_paths_that_there_are_at_the_port_that_is_served(settings):
    paths = set(re.findall(r"path: (/\w+)", MANIFESTS)) - {"/var", "/etc", "/run"}
    assert paths == {"/live", "/ready", "/metrics"}
    assert paths | {"/scalable"} <= {*PATHS}
    assert "/scalable" in MANIFESTS
    assert "/scalable" in NOTES
    address = settings.config.http_address
    assert address is not None
    assert values_of("containerPort") == values_of("port") - {"http"} == {str(address.port)}


def test_the_settings_are_taken_and_their_folders_are_mounted(settings):
    config = settings.config
    mounts = {"/var/lib/kstreams-assign", "/etc/kstreams-assign", "/run/kstreams-assign"}
    assert values_of("mountPath") == mounts
    assert config.state_dir in mounts
    assert str(Path(config.socket).parent) in mounts
    (claim,) = re.findall(r"volumeClaimTemplates:\n    - metadata:\n        name: (\w+)", MANIFESTS)
    assert f"- name: {claim}\n              mountPath: {config.state_dir}\n" in MANIFESTS
    assert config.process_name == "order-workers-0"
    assert config.endpoint is not None
    assert config.endpoint.host == f"order-workers-0.{values_of('serviceName').pop()}"


def test_no_manifest_has_a_hook_until_a_user_wants_to_drain():
    assert [text for text in yaml.safe_load_all(MANIFESTS) if "preStop" in str(text)] == []


@pytest.fixture
def hooks():
    """The hooks of the containers of a pod that drains, as the comments have them: container -> command."""
    *_, workers = yaml.safe_load_all(re.sub(r"^( +)# ?(lifecycle:|  +\S.*)$", r"\1\2", MANIFESTS, flags=re.MULTILINE))
    containers = workers["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["lifecycle"]["preStop"]["exec"]["command"] for each in containers}


def test_a_pod_that_drains_asks_the_worker_with_its_own_settings(hooks):
    program, command, *options = hooks["worker"]
    assert (program, options) == ("kstreams-assign", ["--config=/etc/kstreams-assign/worker.toml"])
    assert command in COMMANDS


def test_the_application_works_until_the_socket_of_the_draining_worker_is_deleted(hooks, settings, tmp_path):
    """The ``sleep`` of the test deletes the socket: the hook waits while it is there, and ends after that."""
    path = tmp_path / "worker.sock"
    words = [word.replace(settings.config.socket, str(path)) for word in hooks["application"]]
    assert words != hooks["application"]
    sleep = tmp_path / "sleep"
    sleep.write_text(f"#!/bin/sh\necho slept >> {tmp_path}/log\nrm {path}\n")
    sleep.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        for _ in range(2):
            subprocess.run(words, env=environment, check=True, timeout=60)
    assert (tmp_path / "log").read_text() == "slept\n"


def test_the_pods_run_a_worker_on_the_mounted_file():
    (arguments,) = re.findall(r"^          args:\n((?:            - .+\n)+)          env:", MANIFESTS, re.MULTILINE)
    command, *options = re.findall(r"- (.+)", arguments)
    assert command in COMMANDS
    assert options[0] == "--config=/etc/kstreams-assign/worker.toml"


@pytest.mark.parametrize("text", [NOTES, UNIT])
def test_every_command_is_one_of_ours(text):
    commands = set(re.findall(r"(?:bin/|exec |`|: )kstreams-assign ([a-z-]+) --config", text))
    assert commands
    assert commands <= COMMANDS.keys()


def test_the_unit_starts_a_worker_and_gives_up_on_wrong_settings():
    unit = RawConfigParser(strict=True, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str
    unit.read_string(UNIT)
    service = unit["Service"]
    assert service["ExecStart"].endswith("bin/kstreams-assign worker --config /etc/kstreams-assign/%i.toml --json-log")
    assert int(service["RestartPreventExitStatus"]) == dict(EXIT_STATUS)[ConfigError]
    assert service["StateDirectory"] == service["RuntimeDirectory"] == "kstreams-assign/%i"


def test_the_unit_of_the_history_runs_its_command_and_takes_an_orderly_end_for_success(tmp_path, monkeypatch):
    unit = RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str
    unit.read_string(HISTORY_UNIT.replace("\\\n", " "))
    service = unit["Service"]
    program, *words = service["ExecStart"].split()
    assert program == "/opt/kstreams-assign/bin/kstreams-assign"
    asked = []
    monkeypatch.setattr("kstreams_assign.history.live.follow", lambda given: asked.append(given) or signal.SIGTERM)
    (tmp_path / "history.toml").write_text('[client]\n"sasl.password" = "x"\n', encoding="utf-8")
    words = [word.replace("/etc/kstreams-assign", str(tmp_path)) for word in words]
    done = CliRunner().invoke(command_line, words)
    (given,) = asked
    assert str(done.exit_code) in service["SuccessExitStatus"].split()
    assert given.client == {"sasl.password": "x"}
    assert (given.records_a_batch, given.http, given.json_log) == (200_000, HostInfo("127.0.0.1", 8090), True)
    assert given.out.is_relative_to(Path("/var/lib") / service["StateDirectory"])
    assert int(service["RestartPreventExitStatus"]) == dict(EXIT_STATUS)[ConfigError]
    assert service["KillMode"] == "mixed"
