"""Settings of Sphinx for the documentation site; ``make docs`` builds it into ``docs/_build/html``."""

from __future__ import annotations

import sys
from pathlib import Path

import kstreams_assign

sys.path.insert(0, str(Path(__file__).parent))

project = "kstreams_assign"
version = release = kstreams_assign.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "extension"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
language = "en"

myst_heading_anchors = 4  # the same anchors as on GitHub
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("EventListener", "Event")}  # the union of all events is long
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
add_module_names = False
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"kstreams_assign {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"  # what follows a prompt, without the prompt and the output
