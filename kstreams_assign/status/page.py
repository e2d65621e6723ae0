"""The pages: files with their style, and a policy that allows no other.

The status page of a worker fetches only ``status.json``, once a second. It holds no data. Its script writes names as
text, never as markup, and the Content-Security-Policy allows no other script or style. ``filled_page`` is for a page
without a script, whose parts the server fills in.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_STYLE, _SCRIPT = _asset("status.css"), _asset("status.js")

PAGE = _asset("status.html").replace("/*style*/", _STYLE).replace("/*script*/", _SCRIPT).encode()

_NO_SCRIPT_POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
POLICY = f"{_NO_SCRIPT_POLICY}; script-src {_hash(_SCRIPT)}; connect-src 'self'"


def filled_page(name: str, **parts: str) -> tuple[bytes, str]:
    """Return a page of ``assets`` with its parts, which are markup, and its Content-Security-Policy."""
    markup = {"/*style*/": _STYLE, **{f"{{{part}}}": text for part, text in parts.items()}}
    page = re.sub("|".join(map(re.escape, markup)), lambda place: markup[place[0]], _asset(name))
    return page.encode(), _NO_SCRIPT_POLICY
