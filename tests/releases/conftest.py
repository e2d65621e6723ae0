"""Groups that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.releases.group import Group


@pytest.fixture
def group(
    broker: str,
    releases: None,  # noqa: ARG001  # fetches the jars
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Group]:
    """Start a group named after its test, with four tasks or the number that the test sets as parameter."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with closing(Group(broker, name, tmp_path, partitions=getattr(request, "param", 4))) as made:
        yield made
