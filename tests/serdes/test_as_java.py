"""The serdes of Java write and read byte for byte what Kafka's own classes do."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from tests.serdes.as_java import GOLDEN, SERDES, ask_java, golden_questions, text_of, value_of


def golden_lines() -> list[str]:
    return GOLDEN.read_text(encoding="utf-8").splitlines()


def answer(question: str) -> str:
    """Return what Java's shell answers, from our serdes."""
    verb, name, text = question.split(" ")
    serde = SERDES[name]
    try:
        value = value_of(name, text) if verb == "write" else serde.deserialize(bytes.fromhex(text))
    except serde.faults:
        return "refused"
    return serde.serialize(value).hex()


@pytest.mark.parametrize("line", golden_lines())
def test_the_bytes_are_those_of_javas_serdes(line: str) -> None:
    question, _, bytes_of_java = line.partition(" = ")
    assert answer(question) == bytes_of_java


def test_the_golden_lines_have_every_value_that_is_written() -> None:
    assert [line.partition(" = ")[0] for line in golden_lines()] == golden_questions()


@pytest.mark.parametrize("line", [line for line in golden_lines() if line.startswith("write")])
def test_what_java_wrote_is_read_as_the_same_value(line: str) -> None:
    question, _, bytes_of_java = line.partition(" = ")
    _, name, text = question.split(" ")
    read, wrote = SERDES[name].deserialize(bytes.fromhex(bytes_of_java)), value_of(name, text)
    assert type(read) is type(wrote)
    if name == "float" and math.isfinite(wrote):
        assert read == pytest.approx(wrote, rel=1e-7)
    else:
        assert repr(read) == repr(wrote)


def any_value(name: str, random: Random) -> Any:
    match name:
        case "string":
            points = [random.choice([*range(0xD800), *range(0xE000, 0x110000)]) for _ in range(random.randrange(12))]
            return "".join(map(chr, points))
        case "short" | "integer" | "long":
            bits = {"short": 15, "integer": 31, "long": 63}[name]
            return random.randrange(-(2**bits), 2**bits)
        case "float" | "double":
            return random.uniform(-1, 1) * 10 ** random.randrange(-30, 30)
        case "boolean":
            return random.random() < 0.5
        case _:
            return value_of(name, f"{random.getrandbits(128):032x}")


@pytest.mark.usefixtures("java_peer")
def test_java_answers_for_other_values_as_these_serdes_do() -> None:
    """A golden line that Java does not write any more, or a value that none of them has, shows here."""
    random = Random(7)
    names = [name for name in SERDES for _ in range(200)]
    questions = [f"write {name} {text_of(any_value(name, random))}" for name in names]
    questions += [
        f"read {name} {random.randbytes(size).hex()}"
        for name, size in (("short", 2), ("integer", 4), ("long", 8), ("double", 8))
        for _ in range(200)
    ]
    assert ask_java(questions) == list(map(answer, questions))
    assert ask_java(golden_questions()) == [line.partition(" = ")[2] for line in golden_lines()]
