"""``inspect`` and ``what-if`` of a group whose members report values of a later release: real bytes, no broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.observe.snapshot import snapshot_text
from tests.insight.run import Cli
from tests.observe.seen_group import of_later_release


@pytest.mark.parametrize("words", [("inspect",), ("what-if", "--add", "1")], ids=["inspect", "what-if"])
@pytest.mark.parametrize(("setting", "value"), [("assignor", "least_cost"), ("balance_by", "cpu_time")])
def test_the_group_is_shown_with_the_default_as_an_assumption(
    run: Cli, tmp_path: Path, words: tuple[str, ...], setting: str, value: str
) -> None:
    saved = tmp_path / "group.json"
    saved.write_text(snapshot_text(of_later_release(**{setting: value}).snapshot()))
    facts = run(words[0], saved, *words[1:], "--json").facts
    assert f"{value!r} is of a later release, so predictions may differ" in facts["assumed"][setting]
