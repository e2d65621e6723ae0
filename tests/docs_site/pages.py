"""The project's Markdown as values: pages, their code blocks with markers, their links and headings.

A comment right before a code block says how the block is tested beyond its default (``CONTRIBUTING.md`` lists the
markers): ``<!-- test: run -->``.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent.parent
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_MARKER = re.compile(r"<!-- test: (.+?) -->\s*\Z", re.DOTALL)
_DIRECTIVE = re.compile(r"\{(code-block|[\w-]+)\}\s*(\w*)")


@dataclass(frozen=True, slots=True)
class Block:
    """One code block: where it stands, its language, its text, and its marker (empty: tested by default)."""

    page: str
    line: int
    language: str
    text: str
    marker: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def verb(self) -> str:
        """Return the marker without its arguments."""
        return next((verb for verb in VERBS if self.marker == verb or self.marker.startswith(f"{verb} ")), "")

    @property
    def argument(self) -> str:
        """Return what follows the verb."""
        return self.marker.removeprefix(self.verb).strip()


VERBS = (
    "same as",  # a part of a file in the repository, which has a test of its own: same as examples/word_count.py
    "run by",  # a test runs this block word for word: run by tests/mixed/test_guide.py
    "run",  # is run in an empty folder, exit status 0; what a console block shows must be what is printed
    "shown only",  # is not ours to test: shown only, a fragment of another program's configuration
)


@cache
def pages() -> tuple[str, ...]:
    """Return the paths of all tracked pages for users and contributors."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    skipped = ("protocol/", "tests/", "bench/")
    return tuple(
        sorted(name for name in listed.split("\0") if name and not name.startswith(skipped) and (ROOT / name).is_file())
    )


@cache
def tokens(page: str) -> tuple[Token, ...]:
    """Parse a page."""
    return tuple(_MARKDOWN.parse((ROOT / page).read_text(encoding="utf-8")))


def blocks(page: str) -> Iterator[Block]:
    """Yield the code blocks of a page in order; a directive of Sphinx is not one, but ``code-block`` is."""
    marker = ""
    for token in tokens(page):
        if token.type in {"fence", "code_block"}:
            language = token.info.strip()
            directive = _DIRECTIVE.fullmatch(language)
            if directive is None or directive[1] == "code-block":
                line = (token.map or [0])[0] + 1
                yield Block(page, line, directive[2] if directive else language, token.content, marker)
        if token.type == "html_block" and (written := _MARKER.search(token.content)):
            marker = written[1]
        elif token.nesting <= 0:
            marker = ""


def all_blocks() -> list[Block]:
    """Return every code block of every page."""
    return [block for page in pages() for block in blocks(page)]


def inline_code(page: str) -> Iterator[tuple[int, str]]:
    """Yield the code spans of a page, each with its line."""
    for token, line in _inline(page):
        if token.type == "code_inline":
            yield line, token.content


def links(page: str) -> Iterator[tuple[int, str]]:
    """Yield the targets of the links and images of a page, each with its line."""
    for token, line in _inline(page):
        target = token.attrGet("href" if token.type == "link_open" else "src")
        if token.type in {"link_open", "image"} and isinstance(target, str):
            yield line, target


def _inline(page: str) -> Iterator[tuple[Token, int]]:
    for token in tokens(page):
        for child in token.children or ():
            yield child, (token.map or [0])[0] + 1


@cache
def anchors(page: str) -> frozenset[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    names: list[str] = []
    parsed = tokens(page)
    for heading, content in itertools.pairwise(parsed):
        if heading.type == "heading_open":
            text = "".join(child.content for child in content.children or () if child.type in {"text", "code_inline"})
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            names.append(slug if slug not in names else f"{slug}-{names.count(slug)}")
    return frozenset(names)
