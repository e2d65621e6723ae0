"""Fill the reference pages from the code while Sphinx reads them, so that they cannot miss anything.

A page says where: ``<!-- generated: settings -->`` stands for what ``PARTS["settings"]`` returns. The pages of the
Python API are written as files, one for each public name, into ``reference/api/``, which git ignores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from extension import api, commands, operations, settings, sidecar

PARTS: Mapping[str, Callable[[], str]] = {
    "settings": settings.settings_part,
    "topology settings": settings.topology_part,
    "errors": api.errors_part,
    "errors by call": api.calls_part,
    "events": operations.events_part,
    "metrics": operations.metrics_part,
    "commands": commands.commands_part,
    "exit statuses": commands.statuses_part,
    "sidecar messages": sidecar.messages_part,
    "sidecar operations": sidecar.operations_part,
    "sidecar events": sidecar.events_part,
    "sidecar errors": sidecar.errors_part,
    "sidecar types": sidecar.types_part,
}
_PLACE = re.compile(r"<!-- generated: (.+?) -->")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", _write_api)
    app.connect("env-get-outdated", _outdated)
    app.connect("source-read", _fill)
    app.connect("autodoc-process-signature", _name_aliases)
    app.connect("autodoc-process-docstring", _drop_field_numbers)
    return {"parallel_read_safe": True}


def _write_api(app: Sphinx) -> None:
    """Write the pages that differ from what is there, and delete those of names that no longer exist."""
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(exist_ok=True)
    pages = api.pages()
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        page = folder / name
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _outdated(
    _app: Sphinx, env: BuildEnvironment, _added: set[str], _changed: set[str], _removed: set[str]
) -> list[str]:
    """Read the reference again: the code may have changed."""
    return [name for name in env.found_docs if name.startswith("reference/")]


def _fill(_app: Sphinx, _docname: str, source: list[str]) -> None:
    source[0] = _PLACE.sub(lambda place: _part(place[1]), source[0])


def _part(name: str) -> str:
    if name not in PARTS:
        raise ExtensionError(f"<!-- generated: {name} -->: there are {', '.join(PARTS)}")
    return PARTS[name]()


def _name_aliases(
    _app: Sphinx, _what: str, _name: str, _value: object, _options: object, arguments: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Show an alias of ``autodoc_type_aliases`` by its name also in a union, where Sphinx shows its own class."""
    alias = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    return arguments and alias.sub(r"\1", arguments), returns and alias.sub(r"\1", returns)


def _drop_field_numbers(
    _app: Sphinx, _what: str, _name: str, _value: object, _options: object, lines: list[str]
) -> None:
    """Leave out the text that Python gives each field of a named tuple."""
    lines[:] = [line for line in lines if not line.startswith("Alias for field number ")]
