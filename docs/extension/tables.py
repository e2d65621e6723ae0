"""Markdown from values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Return ``text`` as a code span, or nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def markdown(docstring: str) -> str:
    """Return a docstring's text as Markdown: its code spans have two backticks."""
    return docstring.replace("``", "`")
