"""An environment as ``pip install kstreams-assign`` makes it: the wheel and its requirements without any extra."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9._-]+")
NO_MODULES = frozenset({"__pycache__", "..", "bin"})


def required(name: str, seen: set[str] | None = None) -> set[str]:
    """Return the distributions that a plain install of ``name`` brings, by name; ``name`` itself is not among them."""
    seen = set() if seen is None else seen
    for requirement in distribution(name).requires or ():
        wanted, _, marker = requirement.partition(";")
        match = _NAME.match(wanted.strip())
        assert match is not None, requirement
        if "extra" in marker or _is_elsewhere(marker) or match[0].lower() in seen:
            continue
        seen.add(match[0].lower())
        required(match[0], seen)
    return seen


def _is_elsewhere(marker: str) -> bool:
    """Whether a requirement is for another system or an older Python, so that it is not installed here."""
    return any(word in marker for word in ("sys_platform", "platform_system", "python_version", "os_name"))


def modules_of(names: set[str]) -> Iterator[Path]:
    """The files and folders that these distributions put beside each other."""
    for name in sorted(names):
        package = distribution(name)
        tops = {file.parts[0] for file in package.files or ()} - NO_MODULES
        yield from (Path(str(package.locate_file(top))) for top in sorted(tops))
