"""The documentation site: it builds without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as ``make docs`` does, and return its folder."""
    html = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--builder", "html"]
    # A setting of Python's warnings for the tests is not for Sphinx.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
    build = subprocess.run(
        [*command, DOCS, html], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert build.returncode == 0, build.stderr
    return html


def test_every_page_of_docs_is_in_the_site(site):
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    assert len(pages) > 7
    assert sorted(page for page in pages if not (site / page).is_file()) == []
