"""The Python API: one page for each public name, driven by ``kstreams_assign.__all__``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import kstreams_assign
from extension.tables import markdown, table

KINDS = ("Classes", "Functions", "Errors", "Types and constants")


def kind_of(value: object) -> str:
    """Return the heading that a public name stands under."""
    if isinstance(value, type):
        return "Errors" if issubclass(value, BaseException) else "Classes"
    return "Functions" if inspect.isroutine(value) else "Types and constants"


def public_names() -> Mapping[str, object]:
    """Return every public name with its value."""
    return {name: getattr(kstreams_assign, name) for name in sorted(kstreams_assign.__all__)}


def pages() -> dict[str, str]:
    """Return file name -> text: an index, and a page for each name."""
    names = public_names()
    return {"index.md": _index(names), **{f"{name}.md": _page(name, value) for name, value in names.items()}}


def _page(name: str, value: object) -> str:
    directive = {"Classes": "autoclass", "Functions": "autofunction", "Errors": "autoexception"}.get(
        kind_of(value), "autodata"
    )
    lines = [f"# {name}", "", "```{eval-rst}", ".. currentmodule:: kstreams_assign", "", f".. {directive}:: {name}"]
    if directive == "autoclass":
        lines += ["   :members:", "   :undoc-members:", "   :inherited-members: tuple, dict, object, Exception"]
    return "\n".join([*lines, "```", ""])


def _index(names: Mapping[str, object]) -> str:
    parts = [
        "# Python API\n",
        "Every public name of `kstreams_assign`. What is not listed here may change without notice.\n",
    ]
    for kind in KINDS:
        rows = [(f"[`{name}`]({name}.md)", summary(value)) for name, value in names.items() if kind_of(value) == kind]
        if rows:
            parts += [f"## {kind}\n", table(("Name", "What it is"), rows)]
    parts += ["```{toctree}", ":hidden:", "", *names, "```", ""]
    return "\n".join(parts)


def summary(value: object) -> str:
    """Return the first line of a docstring."""
    text = inspect.getdoc(value) if isinstance(value, type) or inspect.isroutine(value) else None
    return markdown((text or "").split("\n\n")[0])
