"""Values as lines for Kafka's own serdes (``SerdeShell.java``), and what those answer.

The golden lines in ``golden_serdes.txt`` are Java's answers: ``python -m tests.serdes.as_java`` writes them again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from kstreams_assign import Serde, Serdes

GOLDEN = Path(__file__).with_name("golden_serdes.txt")
SERDES: dict[str, Serde[Any]] = {
    name: getattr(Serdes, name) for name in ("string", "short", "integer", "long", "float", "double", "boolean", "uuid")
}
VALUES: dict[str, list[Any]] = {
    "string": ["", "ann", "käse", "日本", "\U0001f600", "\x00"],
    "short": [0, 1, -1, 2**15 - 1, -(2**15)],
    "integer": [0, 1, -1, 258, 2**31 - 1, -(2**31)],
    "long": [0, 1, -1, 258, 2**63 - 1, -(2**63)],
    "float": [0.0, -0.0, 1.5, -2.25, 0.1, 3.4028234663852886e38, 1e-45, float("inf"), float("-inf"), float("nan")],
    "double": [0.0, -0.0, 1.5, 0.1, 1.7976931348623157e308, 5e-324, float("inf"), float("-inf"), float("nan")],
    "boolean": [True, False],
    "uuid": [UUID(int=0), UUID(int=2**128 - 1), UUID("123e4567-e89b-12d3-a456-426614174000")],
}
FOREIGN = [
    *(f"{name} {'00' * size}" for name in ("short", "integer", "long", "float", "double") for size in range(1, 10)),
    *(f"boolean {data}" for data in ("00", "01", "02", "ff", "0001")),
    *(f"double {data}" for data in ("7ff8000000000000", "fff8000000000001", "7ff0000000000001")),
]
"""Bytes that no serializer writes, or that another one writes."""


def text_of(value: object) -> str:
    """Return a value as the shell reads it."""
    if isinstance(value, str):
        return ",".join(f"{ord(character):x}" for character in value)
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
    return str(value).lower()


def value_of(name: str, text: str) -> Any:
    """Return the value of a text."""
    if name == "string":
        return "".join(chr(int(point, 16)) for point in text.split(",")) if text else ""
    return {"float": float, "double": float, "boolean": "true".__eq__, "uuid": UUID}.get(name, int)(text)


def ask_java(questions: Sequence[str]) -> list[str]:
    """Return Java's answers, one for each question."""
    from tests.java.streams_app import command  # not there when the tests run against the wheel

    text = "".join(f"{question}\n" for question in questions)
    done = subprocess.run(command("SerdeShell"), input=text, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()


def golden_questions() -> list[str]:
    writes = [f"write {name} {text_of(value)}" for name, values in VALUES.items() for value in values]
    return [*writes, *(f"read {line}" for line in FOREIGN)]


if __name__ == "__main__":
    questions = golden_questions()
    lines = [f"{question} = {answer}" for question, answer in zip(questions, ask_java(questions), strict=True)]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
