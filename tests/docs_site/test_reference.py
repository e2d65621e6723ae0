"""The reference of the site has every name there is, counted from the code's text and not by what generates it."""

from __future__ import annotations

import ast
import html
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kstreams_assign.cli import COMMANDS, app
from tests.docs_site.pages import ROOT

PACKAGE = ROOT / "kstreams_assign"


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sections(page: Path) -> dict[str, str]:
    """Return heading -> the text of its section, without markup."""
    parts = re.split(r"<h\d>(.*?)<a class=\"headerlink\".*?</h\d>", page.read_text(encoding="utf-8"), flags=re.DOTALL)[
        1:
    ]
    return {plain(name): plain(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def first_cells(page: Path, heading: str) -> list[str]:
    """Return the first cell of each row of the table below a heading."""
    text = page.read_text(encoding="utf-8")
    (table,) = re.findall(rf">{heading}<a class=\"headerlink\".*?<tbody>(.*?)</tbody>", text, re.DOTALL)
    return [plain(cell) for cell in re.findall(r"<tr[^>]*><td>(.*?)</td>", table, re.DOTALL)]


def test_every_public_name_has_a_page_with_its_docstring(site):
    public = [
        alias.asname
        for node in ast.walk(tree(PACKAGE / "__init__.py"))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    ]
    pages = {page.stem: page for page in (site / "reference" / "api").glob("*.html") if page.stem != "index"}
    documented = {name for name, page in pages.items() if re.search(rf'id="kstreams_assign\.{name}"', page.read_text())}
    print(f"public names: {len(public)}, documented names: {len(documented)}")
    assert sorted(documented) == sorted(public)
    assert len(public) > 50
    empty = [name for name in public if not re.search(r"<dd><p>\w", re.sub(r"\n", "", pages[name].read_text()))]
    assert empty == []


def test_every_setting_has_a_section_with_its_description(site):
    (config,) = [
        node for node in tree(PACKAGE / "config.py").body if isinstance(node, ast.ClassDef) and node.name == "Config"
    ]
    keys = [node.target.id for node in config.body if isinstance(node, ast.AnnAssign)]
    described = sections(site / "reference" / "settings.html")
    print(f"settings: {len(keys)}, described: {len(described.keys() & set(keys))}")
    assert len(keys) > 30
    assert [key for key in keys if "Default: " not in described.get(key, "")] == []
    assert [key for key in keys if not re.match(r"[A-Z]\w+ ", described[key])] == []


def test_every_key_of_a_topology_is_described(site):
    """The keys that the reader of the tables asks for."""
    asked = {
        node.args[0].value
        for node in ast.walk(tree(PACKAGE / "sidecar" / "settings.py"))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"table.get", "store.get", "topology_table.get"}
        and isinstance(node.args[0], ast.Constant)
    }
    described = plain((site / "reference" / "settings.html").read_text().partition("The topology in a worker")[2])
    assert len(asked) > 8
    assert [key for key in asked if not re.search(rf" {key} [a-z].+?[A-Z]", described)] == []


def command_words():
    """Return the words of every command, as the help of each group lists them."""
    words = [[]]
    for name in COMMANDS:
        listed = re.search(r"^Commands:\n((?:  .*\n)+)", helped([name]), re.MULTILINE)
        words += [[name], *([name, sub] for sub in re.findall(r"^  (\S+)", listed[1] if listed else "", re.MULTILINE))]
    return words


def helped(words: list[str]) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"}, prog_name="kstreams-assign")
    assert result.exit_code == 0, result.output
    return result.output


def test_every_command_has_a_section_with_all_its_options(site):
    described = sections(site / "reference" / "commands.html")
    commands = {" ".join(["kstreams-assign", *words]): helped(words) for words in command_words()}
    print(f"commands: {len(commands)}")
    assert len(commands) > 25
    assert sorted(commands.keys() - described.keys()) == []
    missing = {
        command: [
            option
            for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)
            if option not in {"--help", "--install-completion", "--show-completion"}
            and option not in re.findall(r"--[\w-]+", described[command])
        ]
        for command, text in commands.items()
    }
    assert {command: options for command, options in missing.items() if options} == {}


def test_every_error_has_a_section_that_says_what_happened_and_what_to_do(site):
    errors = [node.name for node in tree(PACKAGE / "errors.py").body if isinstance(node, ast.ClassDef)]
    described = sections(site / "reference" / "errors.html")
    print(f"errors: {len(errors)}, described: {len(described.keys() & set(errors))}")
    assert len(errors) > 20
    assert [name for name in errors if not re.match(r".+\. .+\.", described.get(name, ""))] == []


def test_every_event_has_a_section(site):
    declared = {
        ast.literal_eval(node.value)
        for path in (PACKAGE / "events").glob("*.py")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "name" and node.value is not None
    }
    described = sections(site / "reference" / "events.html")
    print(f"events: {len(declared)}, described: {len(described.keys() & declared)}")
    assert len(declared) > 30
    assert [
        name for name in sorted(declared) if not re.match(r"[A-Z].+\. Python type: ", described.get(name, ""))
    ] == []


def test_every_metric_that_a_worker_writes_is_listed(site):
    """Named where they are written, as constants or as a prefix and a constant."""
    page = site / "reference" / "metrics.html"
    listed = [name for name, text in sections(page).items() if re.match(r"[A-Z\d].+\. Kind: \w+", text)]
    endings = {
        call.args[0].values[-1].value
        for call in ast.walk(tree(PACKAGE / "status" / "metrics.py"))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in {"_family", "_value", "_histogram"}
        if isinstance(call.args[0], ast.JoinedStr) and isinstance(call.args[0].values[-1], ast.Constant)
    }
    print(f"metrics: {len(listed)}")
    assert len(endings) > 20
    assert [ending for ending in endings if not any(name.endswith(ending) for name in listed)] == []
    table = (PACKAGE / "status" / "metric_table.py").read_text(encoding="utf-8")
    assert len(listed) == len(re.findall(r"^    MetricRow\(", table, re.MULTILINE))


def test_every_error_code_of_the_sidecar_says_what_to_do(site):
    raised = {
        node.args[0].value
        for path in (PACKAGE / "sidecar").glob("*.py")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "refused" and isinstance(node.args[0], ast.Constant)
    }
    page = site / "reference" / "sidecar.html"
    documented = first_cells(page, "Errors")
    assert len(raised) > 10
    assert sorted(raised - set(documented)) == []
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.read_text(encoding="utf-8"), re.DOTALL)
    for code in documented:
        (row,) = [plain(row) for row in rows if plain(row).startswith(f"{code} ")]
        assert re.search(r"(go on|reconnect|give up) [A-Z].+\.$", row), row


@pytest.mark.parametrize(("heading", "key"), [("Operations", "ops"), ("Events", "events"), ("Types", "types")])
def test_the_sidecar_page_has_all_of(site, heading, key):
    text = (PACKAGE.parent / "protocol" / "sidecar.json").read_text(encoding="utf-8")
    (body,) = re.findall(rf'^  "{key}": {{\n(.*?)^  }}', text, re.MULTILINE | re.DOTALL)
    names = re.findall(r'^    "(\w+)":', body, re.MULTILINE)
    assert len(names) > 3
    page = site / "reference" / "sidecar.html"
    listed = sections(page) if key == "ops" else first_cells(page, heading)
    assert [name for name in names if name not in listed] == []


def test_the_sidecar_page_has_every_key_of_the_protocol(site):
    """A number with its value, a list with each of its sentences, a map with each of its names."""
    protocol = json.loads((PACKAGE.parent / "protocol" / "sidecar.json").read_text(encoding="utf-8"))
    page = plain((site / "reference" / "sidecar.html").read_text(encoding="utf-8"))
    expected = {
        key: [f"{key} {value:,}"] if isinstance(value, int) else [part.replace("`", "") for part in value]
        for key, value in protocol.items()
    }
    assert len(expected) > 8
    assert {key: [part for part in parts if part not in page] for key, parts in expected.items()} == {
        key: [] for key in expected
    }
