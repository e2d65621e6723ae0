"""The process id is kept, or derived from a name; a warning about a change names both ids and the fix."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kstreams_assign.state.identity import derived_id


def test_a_name_gives_the_same_id_in_an_application():
    assert derived_id("orders", "orders-3") == UUID(
        "49a2ec18-b67a-5d71-be57-b4367b6beb25"
    )  # for ever: a release must not reshuffle
    assert derived_id("orders", "orders-3").version == 5
    assert len({derived_id("orders", "a"), derived_id("orders", "b"), derived_id("other", "a")}) == 3


def test_a_named_process_is_the_same_on_an_empty_volume_and_after_a_restart(opened):
    first = opened(process_name="pod-0")
    first.close()
    (first.path / "process").unlink()
    (first.path / "journal").unlink()
    second = opened(process_name="pod-0")
    second.close()
    third = opened(process_name="pod-0")
    assert first.process_id == second.process_id == third.process_id == derived_id("app", "pod-0")
    assert first.warnings == second.warnings == third.warnings == ()


def test_a_name_wins_over_a_kept_id_with_one_warning_that_has_both_ids_and_the_fix(opened):
    before = opened()
    before.close()
    named = opened(process_name="pod-0")
    (warning,) = named.warnings
    assert named.process_id == derived_id("app", "pod-0")
    for part in (
        f"is now {named.process_id}",
        f"was {before.process_id}",
        "process_name = 'pod-0'",
        "remove the setting process_name",
    ):
        assert part in warning
    named.close()
    assert opened(process_name="pod-0").warnings == ()


def test_a_volume_of_another_pod_is_reported(opened):
    opened(process_name="pod-0").close()
    (warning,) = opened(process_name="pod-1").warnings
    assert "process_name = 'pod-0'" in warning
    assert "process_name = 'pod-1'" in warning


def test_the_id_stays_when_the_name_is_removed_again(opened):
    opened(process_name="pod-0").close()
    without = opened()
    assert (without.process_id, without.warnings) == (derived_id("app", "pod-0"), ())


def test_a_lost_process_file_beside_state_is_reported_with_the_old_id(opened, make_state):
    first = opened()
    make_state(first, "0_1", "0_2")
    first.close()
    (first.path / "process").unlink()
    second = opened()
    (warning,) = second.warnings
    ids = f"is now {second.process_id}", f"was {first.process_id}", f'"{first.process_id}"'
    for part in (*ids, "is missing", "2 tasks"):
        assert part in warning
    assert second.process_id != first.process_id  # a copied volume gets an id of its own by losing the file


def test_the_fix_in_the_warning_restores_the_old_id(opened, make_state):
    first = opened()
    make_state(first, "0_1")
    first.close()
    (first.path / "process").write_text("rubbish")
    second = opened()
    remedy = second.warnings[0].partition("write ")[2].partition(" to that file")[0]
    second.close()
    (first.path / "process").write_text(remedy)
    third = opened()
    assert (third.process_id, third.warnings) == (first.process_id, ())


@pytest.mark.parametrize(
    "journal", ["", "{}", '{"at": "2026-01-01T00:00:00.000Z", "did": "open", "process_id": "x"}\n']
)
def test_a_lost_file_beside_state_without_a_journal_reports_an_unknown_id(opened, make_state, journal):
    first = opened()
    make_state(first, "0_1")
    first.close()
    (first.path / "process").unlink()
    (first.path / "journal").write_text(journal)
    assert "before it was unknown" in opened().warnings[0]


def test_a_first_start_has_no_warning(opened):
    assert opened().warnings == ()


def test_the_file_is_json_with_the_name(opened):
    directory = opened(process_name="pod-0")
    kept = json.loads((directory.path / "process").read_text())
    assert kept == {"version": 1, "process_id": str(directory.process_id), "process_name": "pod-0"}
