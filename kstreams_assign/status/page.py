"""The status page: one file that fetches only ``/status.json``, once a second.

It holds no data. Its script writes names as text, never as markup, and the Content-Security-Policy allows no other
script or style.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_STYLE, _SCRIPT = _asset("status.css"), _asset("status.js")

PAGE = _asset("status.html").replace("/*style*/", _STYLE).replace("/*script*/", _SCRIPT).encode()

POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
