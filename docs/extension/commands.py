"""The command line: every command with its arguments and options, and the exit statuses."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from inspect import cleandoc
from typing import Any

from typer.main import get_command

from extension.tables import code, markdown, table
from kstreams_assign.cli import EXIT_STATUS, app

Words = tuple[str, ...]


def walk(command: Any = None, words: Words = ("kstreams-assign",)) -> Iterator[tuple[Words, Any]]:
    """Yield every command with its words; typer exports no type for it."""
    command = command or get_command(app)
    yield words, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from walk(command.get_command(None, name), (*words, name))


def commands_part() -> str:
    """Return a section for each command."""
    return "\n".join(_section(words, command) for words, command in walk() if not command.hidden)


def _section(words: Words, command: Any) -> str:
    *about, last = cleandoc(command.help or "").split("\n\n")
    example = last.removeprefix("Example:").strip() if last.startswith("Example:") else ""
    paragraphs = about if example else [*about, last]
    lines = [f"{'#' * min(len(words) + 1, 4)} `{' '.join(words)}`\n", "\n\n".join(map(markdown, paragraphs)), ""]
    if example:
        lines += ["```sh", example, "```", ""]
    shown = [parameter for parameter in command.params if not parameter.hidden]
    if shown:
        lines.append(table(("Argument or option", "Meaning", "Default"), map(_row, shown)))
    return "\n".join(lines)


def _row(parameter: Any) -> tuple[str, str, str]:
    value = _value(parameter)
    if parameter.param_type_name == "argument":
        name = code(parameter.metavar or parameter.name.upper())
    else:
        name = ", ".join(code(f"{option} {value}".strip()) for option in (*parameter.opts, *parameter.secondary_opts))
    return (
        name,
        markdown(parameter.help or "") + (" May be repeated." if _repeats(parameter) else ""),
        _default(parameter),
    )


def _repeats(parameter: Any) -> bool:
    return bool(parameter.multiple) and "repeated" not in (parameter.help or "")


def _value(parameter: Any) -> str:
    """Return what stands for the value: its metavar, its choices, or its type."""
    if getattr(parameter, "is_flag", False):
        return ""
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    names = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "Path": "PATH"}
    return parameter.metavar or names.get(getattr(kind, "__name__", ""), "TEXT")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or callable(default):
        return ""
    return code(default.value if isinstance(default, Enum) else default)


def statuses_part() -> str:
    """Return what each exit status means."""
    meanings = {
        0: "The command did what it was asked to. Also: the reader of its output ended first (`| head`).",
        1: "The answer is no: a check failed, or the named thing does not exist. Also any other error of this package.",
        2: "The arguments or the settings are wrong; nothing was started.",
        3: "A broker, Spark or another part cannot be reached.",
    }
    assert {status for _, status in EXIT_STATUS} <= meanings.keys(), "a new exit status needs a meaning here"
    return table(("Status", "Meaning"), [(code(status), text) for status, text in meanings.items()])
