"""Groups that are ended with their test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.releases.group import Group


@pytest.fixture
def group(broker: str, releases: None, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:  # noqa: ARG001  # the jars
    """Named after its test; with four tasks, or as many as the test parametrizes it with."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with closing(Group(broker, name, tmp_path, partitions=getattr(request, "param", 4))) as made:
        yield made
