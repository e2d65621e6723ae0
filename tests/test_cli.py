"""The command line's own business: help, exit statuses, a quick start."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from importlib import import_module

import pytest
from typer.testing import CliRunner

from kstreams_assign import cli, errors


def every_error():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return [kind for kind in kinds if issubclass(kind, errors.KStreamsAssignError)]


@cache
def helps():
    """The help of every command and group, by the words that call it; each is found through that of another."""
    texts, todo = {}, [()]
    while todo:
        words = todo.pop()
        result = CliRunner().invoke(cli.app, [*words, "--help"])
        assert result.exit_code == 0, words
        texts[words] = result.stdout
        _, _, listed = result.stdout.partition("Commands:\n" if words else f"{cli.FIRST}:\n")
        todo += [(*words, line.split()[0]) for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    return texts


def test_every_command_has_help_with_an_example(subtests):
    for words, text in helps().items():
        with subtests.test(" ".join(words)):
            example = text[re.search(r"Examples?:\s", text).end() :]
            called = "".join(("kstreams-assign", *words))
            assert called in "".join(example.split())  # click breaks lines at hyphens, too


def test_the_broker_commands_are_there():
    assert {("broker",), ("broker", "start"), ("broker", "stop")} <= helps().keys()


def test_every_command_of_the_table_is_listed_once_below_its_heading():
    listed = [words[0] for words in helps() if len(words) == 1]
    assert sorted(listed) == sorted(cli.COMMANDS)
    headings = [entry.heading for entry in cli.COMMANDS.values()]
    assert sorted(headings, key=headings.index) == headings


@pytest.mark.parametrize("entry", cli.COMMANDS.values(), ids=list(cli.COMMANDS))
def test_every_place_in_the_table_of_commands_names_something_real(entry):
    module, _, name = entry.place.partition(":")
    assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("what-if", "app", "--add", "-1"), "Invalid value for '--add': '-1': must be a number of at least 0"),
        (("what-if", "app", "--add", "x"), "Invalid value for '--add': 'x': must be a whole number of at least 0"),
        (
            ("broker", "start", "--port", "99999"),
            "Invalid value for '--port': '99999': must be a number from 1 to 65535",
        ),
        (("broker", "start", "--port", "x"), "Invalid value for '--port': 'x': must be a whole number from 1 to 65535"),
        (("simulate", "--seed", "x"), "Invalid value for '--seed': 'x': must be a whole number of at least 0"),
        (("inspect", "app", "--timeout", "x"), "Invalid value for '--timeout': 'x': must be a number of at least 0.5"),
        (("broker", "stop", "--pid", "x"), "Invalid value for '--pid': 'x': must be a whole number"),
    ],
)
def test_a_refused_value_is_named_with_what_is_allowed(words, says):
    result = CliRunner().invoke(cli.app, [*words])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {says}"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConfigError, 2),
        (errors.InvalidTaskId, 2),
        (errors.BrokerUnavailable, 3),
        (errors.LocalBrokerError, 3),
        (errors.MalformedUserData, 1),
        (errors.StateDirectoryLocked, 1),
    ],
)
def test_an_error_ends_the_program_with_the_status_of_its_kind(monkeypatch, capsys, error, status):
    def failing() -> None:
        raise error("what went wrong")

    monkeypatch.setattr(cli, "app", failing)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status
    assert capsys.readouterr() == ("", "kstreams-assign: what went wrong\n")


@pytest.mark.parametrize("error", every_error())
def test_every_error_of_the_package_has_an_exit_status(error):
    assert cli.exit_status(error) in {1, 2, 3}


def test_a_wrong_call_is_exit_2():
    assert CliRunner().invoke(cli.app, ["no-such-command"]).exit_code == 2
    assert CliRunner().invoke(cli.app, ["broker", "start", "--port", "0"]).exit_code == 2


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["inspct"], "No such command 'inspct'. Did you mean 'inspect'?"),
        (["what_if", "app"], "No such command 'what_if'. Did you mean 'what-if'?"),
        (["topic", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["--verison"], "No such option: --verison (Possible options: --version)"),
        (["demo", "--reprot", "a.html"], "No such option: --reprot (Possible options: --report)"),
    ],
)
def test_a_misspelt_command_or_option_is_refused_with_what_may_be_meant(words, suggestion):
    refused = CliRunner().invoke(cli.app, words)
    assert refused.exit_code == 2
    assert suggestion in refused.output


def test_a_command_like_no_other_is_refused_without_a_suggestion():
    refused = CliRunner().invoke(cli.app, ["no-such-command"])
    assert refused.output.endswith("Error: No such command 'no-such-command'.\n")


def test_the_package_runs_as_a_module_and_tells_its_version():
    done = subprocess.run(
        [sys.executable, "-m", "kstreams_assign", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kstreams-assign ")


HEAVY = ("confluent_kafka", "kafka", "rocksdict", "msgpack", "rich", "jgo", "requests", "pyspark")


def test_help_is_quick_because_no_client_library_is_imported_for_it():
    code = (
        "import sys\n"
        "from kstreams_assign.cli import app\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
