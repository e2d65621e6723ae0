"""The Python API: one page for each public name, driven by ``kstreams_assign.__all__``."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Mapping
from itertools import pairwise

import kstreams_assign
from extension.tables import markdown, table
from kstreams_assign.cli import exit_status
from kstreams_assign.reference import NOT_RAISED, RAISED_BY, ErrorDescription, errors, raised_by

_DIRECTIVES = {"Classes": "autoclass", "Functions": "autofunction", "Errors": "autoexception"}
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
    directive = _DIRECTIVES.get(kind_of(value), "py:data")
    lines = [f"# {name}", "", "```{eval-rst}", ".. currentmodule:: kstreams_assign", "", f".. {directive}:: {name}"]
    if directive == "autoclass":
        lines += ["   :members:", "   :undoc-members:", "   :inherited-members: tuple, dict, object, Exception"]
    if directive == "py:data":  # of a type alias Sphinx would show the whole value, and no text
        lines += ["", textwrap.indent(_data_docstring(name), "   ")]
    return "\n".join([*lines, "```", ""])


def _data_docstring(name: str) -> str:
    """Return the string below the assignment of a public name that is not a class or function."""
    for module in list(sys.modules.values()):
        if not (module and module.__name__.startswith("kstreams_assign.") and name in vars(module)):
            continue
        for statement, below in pairwise(ast.parse(inspect.getsource(module)).body):
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            if [getattr(target, "id", "") for target in targets] == [name] and isinstance(below, ast.Expr):
                return inspect.cleandoc(ast.literal_eval(below.value))
    raise LookupError(f"{name}: write a string below its assignment that says what it is")


def _index(names: Mapping[str, object]) -> str:
    parts = [
        "# Python API\n",
        "Every public name of `kstreams_assign`. What is not listed here may change without notice.\n",
    ]
    for kind in KINDS:
        rows = [
            (f"[`{name}`]({name}.md)", summary(name, value)) for name, value in names.items() if kind_of(value) == kind
        ]
        if rows:
            parts += [f"## {kind}\n", table(("Name", "What it is"), rows)]
    parts += ["```{toctree}", ":hidden:", "", *names, "```", ""]
    return "\n".join(parts)


def summary(name: str, value: object) -> str:
    """Return the first paragraph of a docstring."""
    text = inspect.getdoc(value) if isinstance(value, type) or inspect.isroutine(value) else _data_docstring(name)
    return markdown((text or "").split("\n\n")[0])


def errors_part() -> str:
    """Return the tree of errors, and a section for each."""
    depths: dict[str, int] = {}
    for error in errors():
        depths[error.name] = depths.get(error.base, -1) + 1
    index = "\n".join(f"{'  ' * depth}- [`{name}`](#{name.lower()})" for name, depth in depths.items())
    return "\n".join([index, "", "## Every error\n", *map(_error, errors())])


def calls_part() -> str:
    """Return a table of errors for each call that raises some, and the errors that come out of no call."""
    parts = []
    for call in RAISED_BY:
        rows = [(_link(error.name), markdown(when), markdown(error.remedy)) for error, when in raised_by(call)]
        parts.append(f"### `{call}`\n\n" + table(("Error", "When", "What to do"), rows))
    rows = [(_link(name), markdown(instead)) for name, instead in NOT_RAISED.items()]
    return "\n".join([*parts, "### None of these calls\n", table(("Error", "Instead"), rows)])


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _error(error: ErrorDescription) -> str:
    paragraphs = [f"### `{error.name}`", *map(markdown, filter(None, (error.meaning, error.remedy, error.attributes)))]
    status = exit_status(getattr(kstreams_assign.errors, error.name))
    return "\n\n".join([*paragraphs, f"A command that ends with it has exit status {status}.\n"])
