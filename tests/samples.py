"""The samples of ``make check``: a test of many seeds or cases runs some of them there, and all in ``make test``.

``HYPOTHESIS_PROFILE=brief`` asks for them; ``tests/conftest.py`` has the profile of the same name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

BRIEF = os.environ.get("HYPOTHESIS_PROFILE") == "brief"
BRIEF_EXAMPLES = 10
"""Generated inputs of each test in ``make check``."""


def examples(count: int, *, brief: bool = BRIEF) -> int:
    """Return how many inputs hypothesis generates for a test that has ``count`` of them in ``make test``."""
    return min(count, BRIEF_EXAMPLES) if brief else count


def sample(cases: Sequence[T], count: int, *, brief: bool = BRIEF) -> Sequence[T]:
    """Return all cases, or in ``make check`` ``count`` of them, evenly spread from the first on."""
    return [cases[at * len(cases) // count] for at in range(count)] if brief and count < len(cases) else cases
