"""No entrance shows a secret that it was given: neither an error, nor a log line, a page, or an event."""

from __future__ import annotations

import json
import logging
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kstreams_assign import Config
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import describes_groups
from kstreams_assign.cli import app as cli
from kstreams_assign.client_settings.names import PROPERTIES
from kstreams_assign.client_settings.texts import holds_no_secret
from kstreams_assign.errors import ConfigError, KStreamsAssignError
from kstreams_assign.events import HttpListeningEvent
from kstreams_assign.history.live import Asked as HistoryAsked
from kstreams_assign.history.source import Broker
from kstreams_assign.insight.inspect import Asked
from kstreams_assign.local import LocalBroker
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.status.server import PATHS
from tests.worker.app import App

SECRET = "marker-of-a-secret"  # not one
NO_BROKER = "127.0.0.1:1"
SECRETS = [*(name for name in PROPERTIES if not holds_no_secret(name)), "sasl.pasword", "no.such.setting"]

TOML = """
application_id = "app"
bootstrap_servers = "127.0.0.1:1"
socket = "app.sock"
[client]
"{name}" = {value}
[[topology.subtopology]]
sources = ["in"]
"""


def text_of(error: BaseException) -> str:
    """Everything that a traceback of it would show, and its representation."""
    return f"{error!r}\n{''.join(traceback.format_exception(error))}"


def test_the_names_that_are_known_to_hold_secrets_are_among_them():
    assert {
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
    } <= set(SECRETS)


@pytest.mark.parametrize("name", SECRETS)
def test_a_configuration_does_not_show_it(name: str, tmp_path: Path):
    shown = []
    for client in ({name: SECRET}, {name: 5}, {name: [SECRET]}, {name: SECRET, "linger.ms": "x"}):
        try:
            shown.append(repr(Config("app", NO_BROKER, client=client)))  # type: ignore[arg-type]
        except ConfigError as error:
            shown.append(text_of(error))
    file = tmp_path / "worker.toml"
    for value in (f'"{SECRET}"', f'["{SECRET}"]', f'"{SECRET}', f"'''{SECRET}"):
        file.write_text(TOML.format(name=name, value=value), encoding="utf-8")
        for read in (Config.from_toml, SidecarSettings.from_toml):
            try:
                shown.append(repr(read(file)))
            except ConfigError as error:
                shown.append(text_of(error))
    assert len(shown) == 12
    assert [text for text in shown if SECRET in text] == []


COMMANDS = {
    "inspect": ("inspect", "group", "-b", NO_BROKER, "--timeout", "0.5"),
    "what-if": ("what-if", "group", "-b", NO_BROKER, "--timeout", "0.5", "--add", "1"),
    "transactions": ("transactions", "group", "-b", NO_BROKER, "--timeout", "0.5"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("given", ["{name}={secret}", "{secret}", "={secret}", "{name}:{secret}"])
@pytest.mark.parametrize("name", ["sasl.password", "ssl.keystore.password", "ssl.key.pem", "sasl.pasword"])
def test_a_command_does_not_show_it(command: str, given: str, name: str):
    pair = given.format(name=name, secret=SECRET)
    try:
        done = CliRunner().invoke(cli, [*COMMANDS[command], "--client", pair])
        shown = done.output + (text_of(done.exception) if done.exception else "")
    except KStreamsAssignError as error:
        shown = text_of(error)
    assert shown
    assert SECRET not in shown


def test_a_command_of_the_history_does_not_show_it(tmp_path: Path):
    for pair in (SECRET, f"={SECRET}", f"sasl.pasword={SECRET}", f"group.id={SECRET}"):
        arguments = ["history", "follow", "-b", NO_BROKER, "--out", str(tmp_path / "out"), "--client", pair]
        done = CliRunner().invoke(cli, arguments)
        assert done.exception is not None
        assert pair.startswith("group.id") or SECRET not in done.output + text_of(done.exception)


def test_what_a_command_was_asked_does_not_show_it(tmp_path: Path):
    client = {"sasl.password": SECRET}
    for asked in (Asked("g", client=client), HistoryAsked(tmp_path, client=client), Broker(NO_BROKER, client)):
        assert SECRET not in repr(asked)


def meets_a_broker(make: Callable[[], Any]) -> str:
    """What comes of a client that a plain broker does not understand."""
    try:
        make()
    except KStreamsAssignError as error:
        return text_of(error)
    return pytest.fail("a broker without SASL let it in")


def log_everything(caplog: pytest.LogCaptureFixture) -> None:
    """Have the Kafka clients' own lines, too."""
    for name in ("", "kafka", "kstreams_assign.adapters.confluent"):
        caplog.set_level(logging.DEBUG, name)


def test_a_client_that_is_not_let_in_does_not_show_it(
    broker: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": SECRET,
        "debug": "all",
    }
    log_everything(caplog)

    def describe() -> None:
        with describes_groups(broker, client, timeout_s=2) as groups:
            groups.describe("secrets")

    shown = [
        meets_a_broker(lambda: ClusterAdmin(broker, client).reach(2.0)),
        meets_a_broker(describe),
    ]
    assert [text for text in shown if SECRET in text] == []
    assert SECRET not in caplog.text
    assert caplog.records
    assert SECRET not in "".join(capfd.readouterr())


def test_a_worker_that_runs_shows_it_nowhere(broker: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """The password is not asked for by this broker; everything else that a member says goes past here."""
    log_everything(caplog)
    app = App(broker, "shows-no-secret", tmp_path)
    client = {"sasl.password": SECRET, "ssl.key.password": SECRET, "debug": "conf,security"}
    worker = app.start(1, client=client, http="127.0.0.1:0")
    worker.until_running(4)
    app.send([b"word"])
    app.until_counted()
    url = worker.reported(HttpListeningEvent)[0].url
    pages = []
    for path in PATHS:
        with urllib.request.urlopen(f"{url}{path[1:]}") as answer:  # our own
            pages.append(answer.read().decode())
    worker.stop()
    assert SECRET not in "".join(pages)
    assert SECRET not in json.dumps(worker.events, default=repr)
    assert caplog.records
    assert SECRET not in caplog.text


def test_signing_in_shows_no_password_even_where_it_goes_over_the_wire_as_it_is(
    broker: str,  # noqa: ARG001  # the part
    caplog: pytest.LogCaptureFixture,
):
    """kafka-python logs each request with its bytes, also the request with user and password."""
    log_everything(caplog)
    password = f"{SECRET}, with a backslash \\ in it"
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": SECRET,
        "debug": "all",
    }
    with LocalBroker(users={"me": SECRET}) as asking:
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            with describes_groups(
                asking.bootstrap_servers, {**client, "sasl.mechanism": mechanism}, timeout_s=30
            ) as groups:
                assert groups.describe("no-such-group") is None
            ClusterAdmin(asking.bootstrap_servers, {**client, "sasl.mechanism": mechanism}).reach(30)
        with pytest.raises(KStreamsAssignError):
            ClusterAdmin(asking.bootstrap_servers, {**client, "sasl.password": password}).reach(30)
    assert any("SaslAuthenticateRequest" in record.getMessage() for record in caplog.records)
    assert SECRET not in caplog.text
