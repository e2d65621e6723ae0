"""The memory limit of a container is read from either version of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.adapters.container_memory import container_memory_bytes


@pytest.mark.parametrize(
    ("text", "limit"),
    [("536870912\n", 536870912), ("max\n", None), ("9223372036854771712\n", None), ("", None), ("\xff", None)],
)
def test_a_limit_is_a_number_below_the_greatest(tmp_path: Path, text: str, limit: int | None) -> None:
    file = tmp_path / "memory.max"
    file.write_text(text, encoding="latin-1")
    assert container_memory_bytes([tmp_path / "none", file]) == limit


def test_a_system_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert container_memory_bytes([tmp_path / "none"]) is None
