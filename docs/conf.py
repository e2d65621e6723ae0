"""Settings of Sphinx for the documentation site; ``make docs`` builds it into ``docs/_build/html``."""

from __future__ import annotations

import kstreams_assign

project = "kstreams_assign"
version = release = kstreams_assign.__version__
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
language = "en"

myst_heading_anchors = 4  # the same anchors as on GitHub
myst_enable_extensions = ["colon_fence", "deflist"]

html_theme = "furo"
html_title = f"kstreams_assign {version}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"  # what follows a prompt, without the prompt and the output
