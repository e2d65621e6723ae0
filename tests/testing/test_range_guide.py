"""``docs/how-to/stores.md``: its program about the end of a range runs, word for word, and can fail."""

from __future__ import annotations

import pytest

from tests.docs_site.pages import blocks

(PROGRAM,) = [block.text for block in blocks("docs/how-to/stores.md") if block.verb == "run by"]


def run(program: str) -> None:
    exec(compile(program, "stores.md", "exec"), {"__name__": "guide"})


def test_the_program_runs() -> None:
    run(PROGRAM)


def test_the_program_fails_for_a_range_that_includes_its_end() -> None:
    wrong = PROGRAM.replace('range(b"a", b"c"))', 'range(b"a", b"c" + b"\\0"))')
    assert wrong != PROGRAM
    with pytest.raises(AssertionError):
        run(wrong)
