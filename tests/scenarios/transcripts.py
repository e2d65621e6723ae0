"""Runs a transcript: the steps of a group in a text file, whose answers can be rewritten.

A file opens with prose. A step is a command line, lines of input, ``----``, and what is answered, up to an empty line;
all else is prose. Commands stand in ``group`` (instances and assignors) and ``learner_group`` (the seed's members);
``simulate`` is what ``kstreams-assign simulate`` prints of a seed that failed, and is played again. Of a step only the
answer is rewritten: the input, a table of the KIP for one, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from kstreams_assign.sim.play import play
from kstreams_assign.sim.transcript import happened, script_of
from tests.scenarios.group import Group
from tests.scenarios.learner_group import LearnerGroup

RULE = "----"

Command = Callable[[list[str], list[str]], list[str]]
"""(words after the command, lines of input) -> lines of the answer."""


@dataclass
class Step:
    """A command with its input and the answer that the file expects."""

    command: str
    given: list[str]
    expected: list[str]


class Learners(Protocol):
    """The seed's members: pure ones, or members of a simulated group."""

    def commands(self) -> dict[str, Command]: ...


def rerun(text: str, learners: Callable[[], Learners] = LearnerGroup) -> str:
    """The transcript with every answer as it is now. Raises ``ValueError`` for a command that there is not."""
    commands: dict[str, Command] = {**Group().commands(), **learners().commands(), "simulate": simulate}
    lines: list[str] = []
    for part in parts(text):
        if isinstance(part, str):
            lines.append(part)
        else:
            lines += [part.command, *part.given, RULE, *answer(commands, part)]
    return "\n".join(lines) + "\n"


def answer(commands: Mapping[str, Command], step: Step) -> list[str]:
    for name, command in commands.items():
        if step.command == name or step.command.startswith(f"{name} "):
            return command(step.command.removeprefix(name).split(), step.given)
    raise ValueError(f"{step.command!r} is no command; there are: {', '.join(commands)}")


def simulate(words: list[str], given: list[str]) -> list[str]:
    """The seed, and all that decides how it goes -> what happens."""
    return list(happened(play(script_of("\n".join([f"simulate {' '.join(words)}", *given])), logged=True)))


def parts(text: str) -> Iterator[str | Step]:
    """Lines of prose, and steps."""
    lines = text.splitlines()
    while lines:
        block = lines[: lines.index("")] if "" in lines else lines
        if RULE in block:
            rule = block.index(RULE)
            yield Step(block[0], block[1:rule], block[rule + 1 :])
        else:
            yield from block
        if len(block) < len(lines):
            yield ""
        lines = lines[len(block) + 1 :]
