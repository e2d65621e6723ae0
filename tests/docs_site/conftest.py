"""The site, built once for all its tests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.docs_site.pages import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Build the site as ``make docs`` does, and return its folder."""
    html = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--builder", "html"]
    # A setting of Python's warnings for the tests is not for Sphinx.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
    build = subprocess.run(
        [*command, ROOT / "docs", html],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert build.returncode == 0, build.stderr
    return html
