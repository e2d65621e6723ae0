"""The command lines in a block of shell: each is read by the program that it calls, which does not run."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import typer
from typer.main import get_command

from kstreams_assign.cli import app

ROOT = Path(__file__).parent.parent.parent
_OPERATORS = re.compile(r"[;&|()]+|[<>]+&?")
_USAGE_ERROR = typer.BadParameter.__mro__[1]


def shell_text(language: str, text: str) -> str:
    """Return the commands of a block; in a ``console`` block they stand behind a prompt, and the rest is output."""
    if language != "console":
        return text
    commands: list[str] = []
    continued = False
    for line in text.splitlines():
        if continued or line.startswith("$ "):
            commands.append(line.removeprefix("$ "))
            continued = line.endswith("\\")
    return "\n".join(commands) + "\n"


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of ``text``, without redirections and variables."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words: list[str] = []
        to_file = False
        for word in lexer:
            if _OPERATORS.fullmatch(word):
                to_file = word[0] in "<>"
                if to_file and words and words[-1].isdecimal():  # a descriptor: 2> log
                    words.pop()
                if not to_file:
                    yield words
                    words = []
            elif to_file:
                to_file = False
            elif words or not re.match(r"\w+=", word):
                words.append(word)
        yield words


def problem(words: list[str], page_text: str, *, complete: bool = True) -> str | None:
    """Return what is wrong with a command, or None; unless ``complete`` it may lack arguments.

    Commands of other projects are not looked into.
    """
    if words[:2] in (["docker", "compose"], ["docker", "run"], ["docker", "exec"], ["kubectl", "exec"]):
        words = words[words.index("kstreams-assign") :] if "kstreams-assign" in words else []
    match words:
        case ["kstreams-assign", *arguments] | ["python", "-m", "kstreams_assign", *arguments]:
            return _refused(arguments, complete)
        case ["make", *targets]:
            return next((f"no such target: {name}" for name in targets if name in _plain(name) - _targets()), None)
        case ["pip", "install", *packages]:
            return next((f"no such extra: {name}" for name in packages if not _is_installable(name)), None)
        case ["python" | ".venv/bin/python", "-m", module, *_]:
            where = ROOT / module.replace(".", "/")
            known = where.with_suffix(".py").is_file() or (where / "__main__.py").is_file() or module in _TOOLS
            return None if known else f"no such module: {module}"
        case ["python" | ".venv/bin/python", script, *_] if script.endswith(".py"):
            # A guide may have shown the file, by its name, before.
            return (
                None
                if (ROOT / script.removeprefix("../")).is_file() or f"`{script}`" in page_text
                else f"no such file: {script}"
            )
    return None


_TOOLS = {"pip", "venv", "pytest"}


def _refused(arguments: list[str], complete: bool) -> str | None:
    """Let typer read the arguments as the program would; a file or a broker need not be there."""
    command = get_command(app)
    context = None
    try:
        while arguments or not hasattr(command, "resolve_command"):  # a group alone shows its help
            context = command.make_context(command.name or "kstreams-assign", arguments, parent=context)
            if not hasattr(command, "resolve_command"):
                return None
            rest = [*context._protected_args, *context.args]
            if rest:
                _, command, rest = command.resolve_command(context, rest)
            arguments = rest
    except typer.Exit:
        return None
    except _USAGE_ERROR as error:
        text = error.format_message()
        return None if "does not exist" in text or (not complete and text.startswith("Missing")) else text
    return None


def _plain(word: str) -> set[str]:
    return {word} if re.fullmatch(r"[a-z][a-z-]*", word) else set()


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@cache
def _extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def _is_installable(package: str) -> bool:
    named = re.fullmatch(r"kstreams-assign(?:\[([\w,]+)\])?", package)
    return named is None or set((named[1] or "").split(",")) <= _extras() | {""}
