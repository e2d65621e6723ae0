"""The location of the message schemas: in the installed package, or at the top of a source checkout.

It knows nothing of their contents. A wheel carries ``protocol/`` as ``kstreams_assign/protocol/``; a checkout has it
beside the package.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def schema_text(name: str) -> str:
    """Return the text of ``protocol/NAME.json``. Raises ``FileNotFoundError`` if there is no such schema."""
    return _text(files("kstreams_assign"), name)


def _text(package: Traversable, name: str) -> str:
    shipped = package / "protocol" / f"{name}.json"
    if shipped.is_file():
        return shipped.read_text(encoding="utf-8")
    beside = Path(str(package)).parent / "protocol" / f"{name}.json"
    return beside.read_text(encoding="utf-8")
