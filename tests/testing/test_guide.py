"""``docs/how-to/test-without-a-broker.md``: its tests pass, word for word, and can fail."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "test-without-a-broker.md"
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
TESTS = re.findall(r"^def (test_\w+)", PROGRAM, re.MULTILINE)


def run(name: str, program: str = PROGRAM) -> None:
    names: dict[str, object] = {"__name__": "guide"}
    exec(compile(program, PAGE.name, "exec"), names)
    test = names[name]
    assert callable(test)
    test()


@pytest.mark.parametrize("name", TESTS)
def test_the_guide_passes(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL, "kstreams_assign"):
        run(name)


@pytest.mark.parametrize("name", TESTS)
def test_the_guide_fails_where_the_function_counts_wrongly(name: str, caplog: pytest.LogCaptureFixture) -> None:
    wrong = PROGRAM.replace(") + 1", ") + 2")
    assert wrong != PROGRAM
    with caplog.at_level(logging.CRITICAL, "kstreams_assign"), pytest.raises(AssertionError):
        run(name, wrong)
