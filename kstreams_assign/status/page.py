"""The pages: files with their style and script, and a policy that allows no other.

The status page of a worker fetches only ``status.json``, once a second until its button pauses it. It holds no data.
Its script writes names as text, never as markup. Parts of the page for all processes are filled in by the server, and
its script fetches only that page again.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def filled_page(name: str, **parts: str) -> tuple[bytes, str]:
    """Return a page of ``assets`` with its parts, which are markup, and its Content-Security-Policy."""
    style, script = _asset("status.css"), _asset("following.js") + _asset(f"{name}.js")
    markup = {"/*style*/": style, "/*script*/": script, **{f"{{{part}}}": text for part, text in parts.items()}}
    page = re.sub("|".join(map(re.escape, markup)), lambda place: markup[place[0]], _asset(f"{name}.html"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page.encode(), policy


PAGE, POLICY = filled_page("status")
