"""The process id: kept, or derived from a name; a change is told with both ids and what to do."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kstreams_assign.state.identity import derived_id


def test_a_name_stands_for_one_id_in_one_application():
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


def test_a_name_over_a_kept_id_wins_and_both_ids_and_the_remedy_are_told_once(opened):
    before = opened()
    before.close()
    named = opened(process_name="pod-0")
    (warning,) = named.warnings
    assert named.process_id == derived_id("app", "pod-0")
    for part in (
        f"is {named.process_id}",
        f"was {before.process_id}",
        "process_name = 'pod-0'",
        "leave process_name out",
    ):
        assert part in warning
    named.close()
    assert opened(process_name="pod-0").warnings == ()


def test_a_volume_that_was_another_pods_says_so(opened):
    opened(process_name="pod-0").close()
    (warning,) = opened(process_name="pod-1").warnings
    assert "process_name = 'pod-0'" in warning
    assert "process_name = 'pod-1'" in warning


def test_a_name_that_is_left_out_again_keeps_the_id_it_gave(opened):
    opened(process_name="pod-0").close()
    without = opened()
    assert (without.process_id, without.warnings) == (derived_id("app", "pod-0"), ())


def test_a_lost_process_file_beside_state_is_told_with_the_old_id(opened, make_state):
    first = opened()
    make_state(first, "0_1", "0_2")
    first.close()
    (first.path / "process").unlink()
    second = opened()
    (warning,) = second.warnings
    for part in (f"is {second.process_id}", f"was {first.process_id}", "is gone", "2 tasks", f'"{first.process_id}"'):
        assert part in warning
    assert second.process_id != first.process_id  # a copied volume gets an id of its own by losing the file


def test_what_the_warning_says_brings_the_old_id_back(opened, make_state):
    first = opened()
    make_state(first, "0_1")
    first.close()
    (first.path / "process").write_text("rubbish")
    second = opened()
    remedy = second.warnings[0].partition("write ")[2].partition(" there")[0]
    second.close()
    (first.path / "process").write_text(remedy)
    third = opened()
    assert (third.process_id, third.warnings) == (first.process_id, ())


@pytest.mark.parametrize(
    "journal", ["", "{}", '{"at": "2026-01-01T00:00:00.000Z", "did": "open", "process_id": "x"}\n']
)
def test_a_lost_file_beside_state_and_no_memory_of_the_id_is_told_as_not_known(opened, make_state, journal):
    first = opened()
    make_state(first, "0_1")
    first.close()
    (first.path / "process").unlink()
    (first.path / "journal").write_text(journal)
    assert "before it was not known" in opened().warnings[0]


def test_a_first_start_has_nothing_to_tell(opened):
    assert opened().warnings == ()


def test_the_file_is_json_that_tells_the_name(opened):
    directory = opened(process_name="pod-0")
    kept = json.loads((directory.path / "process").read_text())
    assert kept == {"version": 1, "process_id": str(directory.process_id), "process_name": "pod-0"}
