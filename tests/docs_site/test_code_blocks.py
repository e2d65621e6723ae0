"""Every code block of the pages is right: it parses, its names and options exist, and it does what its marker says.

By default, by language:

- ``python``: compiles, and the type checker finds every name, argument and attribute of ours that it uses.
- ``sh``, ``console`` (``$`` before a command, then its output): the shell can read it; the command line itself reads
  every ``kstreams-assign`` line; ``make`` targets, extras, scripts and modules exist.
- ``toml``: parses, and a worker takes the settings. ``json``, ``yaml``: parse.
- Another language is only highlighted; ``text`` is for what has none.

``VERBS`` of ``pages.py`` lists what a comment before a block can ask for beyond that.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError
from kstreams_assign.sidecar.settings import SidecarSettings
from tests.docs_site.command_lines import commands, problem, shell_text
from tests.docs_site.pages import ROOT, Block, all_blocks, inline_code, pages

SHELLS = {"sh", "console"}
SHOWN = {"text", "java", "javascript", "go", "sql", "ini", "promql", "dockerfile", "mermaid", "diff", "csv"}
CHECKED = {"python", "toml", "json", "yaml", *SHELLS}
ALLOW_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST


def blocks_of(*languages: str) -> list[Block]:
    return [block for block in all_blocks() if block.language in languages and block.verb != "shown only"]


def test_every_block_has_a_known_language_and_marker():
    blocks = all_blocks()
    assert len(blocks) > 20
    assert [f"{block}: {block.language!r}" for block in blocks if block.language not in CHECKED | SHOWN] == []
    assert [f"{block}: {block.marker!r}" for block in blocks if block.marker and not block.verb] == []


@pytest.mark.parametrize("block", blocks_of("python"), ids=str)
def test_python_compiles(block):
    compile(block.text, str(block), "exec", ALLOW_AWAIT)


def test_python_uses_names_arguments_and_attributes_that_exist(tmp_path):
    """What a fragment does not define may be anything; what is ours has its types."""
    blocks = blocks_of("python")
    assert blocks
    for number, block in enumerate(blocks):
        (tmp_path / f"block_{number}.py").write_text(f"# {block}\n{block.text}", encoding="utf-8")
    options = ["--follow-imports=silent", "--ignore-missing-imports", "--check-untyped-defs", "--no-strict-optional"]
    allowed = ["name-defined", "top-level-await", "var-annotated"]
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            *options,
            *(f"--disable-error-code={code}" for code in allowed),
            "--config-file=",
            f"--cache-dir={ROOT / '.mypy_cache' / 'docs'}",
            "--no-namespace-packages",
            tmp_path,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    said = re.sub(
        r"^block_(\d+)\.py:(\d+)",
        lambda match: f"{blocks[int(match[1])].page}:{blocks[int(match[1])].line + int(match[2]) - 1}",
        checked.stdout,
        flags=re.MULTILINE,
    )
    assert checked.returncode == 0, said + checked.stderr


def test_a_whole_program_is_the_text_of_a_tested_file_or_runs():
    """A program that a reader copies: it imports, and starts something."""
    programs = [
        block
        for block in blocks_of("python")
        if re.search(r"^(from|import) ", block.text, re.MULTILINE)
        and re.search(r"^.*\.run\(", block.text, re.MULTILINE)
    ]
    assert programs
    assert [str(block) for block in programs if not block.verb] == []


def test_a_block_is_the_text_of_the_file_that_it_names():
    """``same as``: the file has a test of its own."""
    copies = {block: ROOT / block.argument for block in all_blocks() if block.verb == "same as"}
    assert [str(block) for block, file in copies.items() if block.text.strip() not in file.read_text("utf-8")] == []


def test_a_block_is_run_by_the_test_that_it_names():
    """``run by``: the test reads the page, so it cannot miss a change."""
    runners = {block: ROOT / block.argument for block in all_blocks() if block.verb == "run by"}
    assert [str(block) for block, test in runners.items() if Path(block.page).name not in test.read_text("utf-8")] == []


@pytest.mark.parametrize("block", blocks_of(*SHELLS), ids=str)
def test_a_shell_can_read_the_block_and_its_programs_their_arguments(block):
    text = shell_text(block.language, block.text)
    assert text.strip(), "a console block has commands behind '$ '"
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=60)
    page_text = (ROOT / block.page).read_text(encoding="utf-8")
    problems = {" ".join(words): problem(words, page_text) for words in commands(text)}
    assert {command: refused for command, refused in problems.items() if refused} == {}


@pytest.mark.parametrize("block", [block for block in all_blocks() if block.verb == "run"], ids=str)
def test_a_block_runs_and_prints_what_it_shows(block, tmp_path):
    """``run``: each command of a block, in one folder, with the commands of this environment."""
    text = shell_text(block.language, block.text)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    if block.language == "console":
        commands_shown = {f"$ {line}" for line in text.splitlines()} | set(text.splitlines())
        shown = [line for line in block.text.splitlines() if line not in commands_shown]
        assert done.stdout.splitlines() == shown


@pytest.mark.parametrize("block", blocks_of("toml"), ids=str)
def test_toml_parses_and_a_worker_takes_the_settings(block, tmp_path, monkeypatch):
    """What a fragment leaves out is filled in."""
    monkeypatch.chdir(tmp_path)
    known = {field.name for field in fields(Config)} | {"topology"}
    written = tomllib.loads(block.text)
    assert written.keys() <= known, "settings of another program: mark the block as shown only"
    written.get("topology", {}).pop("description", None)  # names a file
    needed = {
        "application_id": "app",
        "bootstrap_servers": "localhost:9092",
        "socket": "app.sock",
        "topology": {"subtopology": [{"sources": ["input"]}]},
    }
    SidecarSettings.from_mapping({**needed, **written})


def test_settings_that_a_worker_refuses_are_seen():
    with pytest.raises(ConfigError):
        SidecarSettings.from_mapping({"application_id": "app", "bootstrap_servers": "b:1", "no_such": 1})


def test_data_parses():
    for block in blocks_of("json", "yaml"):
        assert [*yaml.safe_load_all(block.text)] if block.language == "yaml" else json.loads(block.text), str(block)


@pytest.mark.parametrize("page", pages())
def test_commands_and_names_in_running_text_exist(page):
    """``kstreams-assign COMMAND --option`` and ``kstreams_assign.name`` in code spans."""
    text = (ROOT / page).read_text(encoding="utf-8")
    problems: dict[str, str | None] = {}
    for line, code in inline_code(page):
        if re.match(r"kstreams-assign [a-z]", code) and not re.search(r"[|…\[]|\.\.\.", code):
            problems.update({f"{line}: {code}": problem(words, text, complete=False) for words in commands(code)})
        if (dotted := re.fullmatch(r"(kstreams_assign(?:\.\w+)+)(?:\(.*\))?", code)) and not _exists(dotted[1]):
            problems[f"{line}: {code}"] = "no such name"
    assert {where: refused for where, refused in problems.items() if refused} == {}


def _exists(dotted: str) -> bool:
    value: object = import_module("kstreams_assign")
    for name in dotted.split(".")[1:]:
        try:
            value = getattr(value, name) if hasattr(value, name) else import_module(f"{value.__name__}.{name}")
        except (ImportError, AttributeError):
            return False
    return True


def test_the_first_example_deletes_the_folders_that_it_makes_and_can_be_repeated():
    shell = "\n".join(block.text for block in all_blocks() if block.page == "README.md" and block.language in SHELLS)
    made = {Config("app", "localhost:9092").state_dir, *re.findall(r"mkdir -p (\w+)", shell)}
    (deleted,) = re.findall(r"^rm -r (.+)$", shell, re.MULTILINE)
    assert set(deleted.split()) == made
    assert "mkdir " not in shell.replace("mkdir -p ", "")
    assert not re.search(r"\bkill .*%", shell), "a script has no job control"
