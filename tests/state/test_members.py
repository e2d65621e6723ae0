"""The members that this directory's processes were: kept for the successor, and for no copy of the directory."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from kstreams_assign.errors import StateDirectoryLocked, StateError
from kstreams_assign.state.members import FILE, Members, Seat, kept_members

ME, ANOTHER = UUID(int=1), UUID(int=2)
STRANGE = json.dumps({"process_id": str(ME), "members": [1, {}, {"member_id": 3}]})
FIRST, SECOND, THIRD = Seat("app-1", None), Seat("app-2", None), Seat("app-3", "static-3")


def test_a_process_killed_after_its_join_leaves_a_member(tmp_path: Path) -> None:
    killed = Members(tmp_path, ME)
    killed.joining(FIRST)
    killed.joined(SECOND)
    assert killed.before == ()
    assert Members(tmp_path, ME).before == (SECOND,)


def test_a_process_killed_in_a_join_leaves_its_predecessors_too(tmp_path: Path) -> None:
    Members(tmp_path, ME).joined(FIRST)
    Members(tmp_path, ME).joining(SECOND)
    Members(tmp_path, ME).joining(THIRD)
    assert Members(tmp_path, ME).before == (FIRST, SECOND, THIRD)


def test_a_copied_directory_with_another_id_lists_no_member(tmp_path: Path) -> None:
    Members(tmp_path, ME).joined(FIRST)
    assert Members(tmp_path, ANOTHER).before == ()


def test_a_copied_directory_with_the_same_id_lists_no_member_and_the_original_still_does(tmp_path: Path) -> None:
    """The original may be alive."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    Members(original, ME).joined(FIRST)
    shutil.copytree(original, copy)
    assert Members(copy, ME).before == ()
    Members(copy, ME).joined(SECOND)
    assert (Members(original, ME).before, Members(copy, ME).before) == ((FIRST,), (SECOND,))


def test_a_directory_that_was_renamed_keeps_its_list(tmp_path: Path) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    before.mkdir()
    Members(before, ME).joined(FIRST)
    before.rename(now)
    assert Members(now, ME).before == (FIRST,)


def test_a_cloned_volume_on_another_host_lists_no_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have the same numbers of device and inode there."""
    Members(tmp_path, ME).joined(FIRST)
    monkeypatch.setattr(platform, "node", lambda: "another-host")
    assert Members(tmp_path, ME).before == ()


def test_a_list_without_its_place_as_earlier_versions_wrote_it_lists_no_member(tmp_path: Path) -> None:
    """It may be a copy; a successor of a killed process waits for its session once."""
    Members(tmp_path, ME).joined(FIRST)
    content = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    del content["place"]
    (tmp_path / FILE).write_text(json.dumps(content), encoding="utf-8")
    assert Members(tmp_path, ME).before == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"process_id": 1}', STRANGE])
def test_a_damaged_file_lists_no_member(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    assert Members(tmp_path, ME).before == ()


def test_a_member_dir_is_made_locked_and_named_if_it_cannot_be_used(tmp_path: Path) -> None:
    folder = tmp_path / "app" / "member"
    with kept_members(folder, ME) as members:
        members.joined(FIRST)
        with (
            pytest.raises(StateDirectoryLocked, match=r"in use by .*; .* another member_dir"),
            kept_members(folder, ME),
        ):
            pass
    with kept_members(folder, ME) as members:
        assert members.before == (FIRST,)
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(StateError, match=r"member_dir = .*file: cannot be used: "), kept_members(blocked, ME):
        pass
