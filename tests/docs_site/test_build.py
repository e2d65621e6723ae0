"""The documentation site: it builds without a warning."""

from __future__ import annotations

from tests.docs_site.pages import ROOT

DOCS = ROOT / "docs"


def test_every_page_of_docs_is_in_the_site(site):
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    assert len(pages) > 7
    assert sorted(page for page in pages if not (site / page).is_file()) == []
