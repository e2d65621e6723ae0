"""Every link of the pages leads somewhere: a file, a heading of it, or a site by https."""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import normpath

import pytest

from tests.docs_site.pages import ROOT, anchors, links, pages


def problem(page: str, target: str) -> str | None:
    """Return what is wrong with a link, or None; sites are not asked, as the tests need no network."""
    if "://" in target or target.startswith("mailto:"):
        return None if target.startswith(("https://", "http://localhost:", "http://127.0.0.1:")) else "must be https"
    path, _, anchor = target.partition("#")
    file = normpath(PurePosixPath(page).parent / path) if path else page
    if not (ROOT / file).exists():
        return None if _is_generated(file) else "no such file"
    if anchor and file.endswith(".md") and anchor not in anchors(file):
        return None if "<!-- generated: " in (ROOT / file).read_text(encoding="utf-8") else "no such heading"
    return None


def _is_generated(file: str) -> bool:
    """Sphinx checks links to pages that it generates."""
    return file.startswith("docs/reference/api/")


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_somewhere(page):
    problems = {f"{page}:{line} {target}": problem(page, target) for line, target in links(page)}
    assert {link: wrong for link, wrong in problems.items() if wrong} == {}


def test_the_links_are_seen_and_wrong_ones_are_refused():
    assert sum(len(list(links(page))) for page in pages()) > 50
    assert problem("README.md", "docs/no_such.md") == "no such file"
    assert problem("README.md", "#no-such-heading") == "no such heading"
    assert problem("README.md", "http://example.org") == "must be https"
    assert problem("docs/index.md", "../README.md") is None
