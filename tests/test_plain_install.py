"""Every command in an install without extras: it works, or one line names the extra that it needs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kstreams_assign.errors import EXTRAS
from tests.installed import ROOT, run
from tests.plain_install import modules_of, required
from tests.test_cli import helps
from tests.test_wheel import wheel

__all__ = ["wheel"]
pytestmark = pytest.mark.timeout(600)
NO_BROKER = "127.0.0.1:1"
BROUGHT_BY_CONFLUENT_KAFKA = {"attr", "authlib", "cachetools", "fastavro", "google", "httpx2", "jsonschema"}
EXTRA_LINE = re.compile(r"kstreams-assign: the package \S+ is not installed; .*: pip install '\.\[(\w+)\]'")

ARGUMENTS: Mapping[tuple[str, ...], tuple[int | str, tuple[str, ...]]] = {
    # words -> (exit status, or the extra that the command needs; arguments)
    ("demo",): ("local", ()),
    ("inspect",): (3, ("group", "-b", NO_BROKER, "--timeout", "2")),
    ("what-if",): (3, ("group", "-b", NO_BROKER, "--timeout", "2")),
    ("migrate",): (3, ("app", "--to", "streams", "-b", NO_BROKER, "--timeout", "2")),
    ("transactions",): (3, ("group", "-b", NO_BROKER, "--timeout", "2")),
    ("dead-letters",): (3, ("app", "-b", NO_BROKER, "--timeout", "2")),
    ("topic", "create"): (3, ("words", "-b", NO_BROKER, "--timeout", "2")),
    ("topic", "list"): (3, ("-b", NO_BROKER, "--timeout", "2")),
    ("topic", "produce"): (3, ("words", "a=1", "-b", NO_BROKER, "--timeout", "2")),
    ("topic", "consume"): (3, ("words", "-b", NO_BROKER, "--timeout", "2")),
    ("decode",): (1, ("subscription", "00")),
    ("worker",): (2, ("--config", "none.toml")),
    ("run",): (2, ("absent:worker",)),
    ("drain",): (2, ("--config", "none.toml")),
    ("pause",): (2, ("--config", "none.toml")),
    ("resume",): (2, ("--config", "none.toml")),
    ("get",): (2, ("orders", "totals", "key", "--query", "no-port")),
    ("clean",): (2, ("--config", "none.toml")),
    ("history", "follow"): ("history", ("--out", "history", "-b", NO_BROKER)),
    ("history", "report"): ("history", ("--out", "history", "--html", "page.html")),
    ("history", "ask"): ("history", ("costly-groups", "--out", "history")),
    ("history", "what-if"): ("history", ("--out", "history")),
    ("history", "generate"): ("history", ("--records", "records", "--groups", "1")),
    ("history", "prepare"): ("history", ()),
    ("history", "compact"): ("history", ("--out", "history")),
    ("simulate",): (0, ("--count", "1")),
    ("simulate", "policies"): (0, ()),
    ("simulate", "placements"): (0, ()),
    ("simulate", "probing"): (0, ()),
    ("simulate", "sweep"): ("history", ("--spark", "local[1]")),
    ("broker", "start"): ("local", ()),
    ("broker", "prepare"): ("local", ()),
    ("broker", "stop"): (1, ()),
    ("peer", "info"): (0, ()),
    ("peer", "assign"): (0, ()),
    ("peer", "assign-threads"): (0, ()),
    ("peer", "assign-streams-group"): (0, ()),
    ("peer", "encode-subscription"): (0, ()),
    ("peer", "decode-subscription"): (0, ()),
    ("peer", "encode-assignment"): (0, ()),
    ("peer", "decode-assignment"): (0, ()),
    ("peer", "bench-assign"): (0, ("--case", "10x2x1x1", "--state", "join", "--seconds", "0.1")),
    ("peer", "bench-codec"): (0, ("--seconds", "0.01", "--members", "10")),
}


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command ``kstreams-assign`` of an environment without any extra."""
    home = tmp_path_factory.mktemp("plain")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=home).strip())
    for module in modules_of(required("kstreams-assign")):
        (site / module.name).symlink_to(module)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, folder=home)
    there = run(
        python, "-c", f"import importlib.util as u; print([n for n in {[*EXTRAS]} if u.find_spec(n)])", folder=home
    )
    assert there == "[]\n"
    return home / "bin" / "kstreams-assign"


def test_every_command_is_called() -> None:
    groups = {words[:-1] for words in helps()} - {("simulate",)}
    assert helps().keys() - groups == ARGUMENTS.keys()


@pytest.mark.parametrize("words", ARGUMENTS, ids=" ".join)
def test_a_command_works_or_names_the_extra_that_it_needs(plain: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    expected, arguments = ARGUMENTS[words]
    environment = os.environ | {"KSTREAMS_ASSIGN_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [plain, *words, *arguments],
        cwd=tmp_path,
        env=environment,
        input="",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr
    if isinstance(expected, str):
        assert done.returncode == 2, done.stderr
        line = EXTRA_LINE.fullmatch(done.stderr.splitlines()[-1])
        assert line is not None, done.stderr
        assert line[1] == expected
    else:
        assert done.returncode == expected, done.stderr


def test_help_of_everything_needs_no_extra(plain: Path, tmp_path: Path) -> None:
    """In one process: each is quick, and starting 40 of them is not."""
    code = (
        "from typer.testing import CliRunner\n"
        "from kstreams_assign import cli\n"
        f"for words in {list(helps())!r}:\n"
        "    done = CliRunner().invoke(cli.app, [*words, '--help'])\n"
        "    assert done.exit_code == 0, (words, done.exception)\n"
    )
    run(plain.with_name("python"), "-c", code, folder=tmp_path)


def _imported() -> Iterator[str]:
    for path in (ROOT / "kstreams_assign").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def test_every_package_that_is_imported_is_required_or_belongs_to_an_extra() -> None:
    plain_modules = {module.name.removesuffix(".py") for module in modules_of(required("kstreams-assign"))}
    others = set(_imported()) - sys.stdlib_module_names - plain_modules - {"kstreams_assign"}
    assert others <= EXTRAS.keys()


def test_the_table_of_extras_is_that_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.match(r"[\w-]+", text)[0]: extra for extra in ("local", "history", "rack") for text in declared[extra]}
    assert names.items() <= EXTRAS.items()
    brought = {("py4j", "history"), *((name, "registry") for name in BROUGHT_BY_CONFLUENT_KAFKA)}
    assert EXTRAS.items() - names.items() == brought, "pyspark and confluent-kafka's extras bring these"
