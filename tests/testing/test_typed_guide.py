"""``docs/how-to/serialize.md``: its test passes, word for word, and can fail."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "serialize.md"
(PROGRAM,) = [
    block
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if "def test_" in block
]


def run(program: str) -> None:
    names: dict[str, object] = {"__name__": "guide"}
    exec(compile(program, PAGE.name, "exec"), names)
    test = names["test_amounts_are_added"]
    assert callable(test)
    test()


def test_the_guide_passes() -> None:
    run(PROGRAM)


def test_the_guide_fails_where_the_function_adds_wrongly(caplog: pytest.LogCaptureFixture) -> None:
    wrong = PROGRAM.replace("or 0) + amount", "or 1) + amount")
    assert wrong != PROGRAM
    with caplog.at_level(logging.CRITICAL, "kstreams_assign"), pytest.raises(AssertionError):
        run(wrong)
