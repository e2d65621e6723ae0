"""The schedule is a pure function of its seed, every fault has a target, and the bytes of the application come back."""

from __future__ import annotations

import pytest

from tests.chaos.damage import damage
from tests.chaos.rows import Entry, Row, Unsound, digest, read_entry, read_row, write_entry, write_row
from tests.chaos.schedule import BROKER, Kind, draw_settings, schedule

SEEDS = range(200)


def test_the_same_seed_gives_the_same_faults_and_another_seed_others():
    first, repeated, other = (schedule(draw_settings(seed, 600, "at_least_once")) for seed in (7, 7, 8))
    assert first == repeated
    assert first != other


def test_in_ten_minutes_every_kind_of_fault_happens_and_some_happen_at_once():
    faults = schedule(draw_settings(7, 600, "at_least_once"))
    assert {fault.kind for fault in faults} == set(Kind)
    assert len({fault.at_s for fault in faults}) < len(faults)


def test_kinds_can_be_left_out():
    faults = schedule(draw_settings(7, 600, "at_least_once", without=[Kind.SLEEP]))
    assert Kind.SLEEP not in {fault.kind for fault in faults}


def test_every_fault_is_over_before_the_next_one_of_the_same_target():
    for seed in SEEDS:
        until: dict[int | str, float] = {}
        for fault in schedule(draw_settings(seed, 300, "at_least_once")):
            assert fault.at_s >= until.get(fault.target, 0.0), (seed, fault)
            until[fault.target] = fault.at_s + fault.lasts_s


def test_a_fault_hits_a_live_worker_and_enough_workers_stay():
    for seed in SEEDS:
        settings = draw_settings(seed, 300, "at_least_once")
        there = set(range(settings.workers))
        for fault in schedule(settings):
            if fault.target == BROKER:
                continue
            assert (fault.target in there) == (fault.kind is not Kind.ADD), (seed, fault)
            there ^= {fault.target} if fault.kind in (Kind.ADD, Kind.DRAIN, Kind.CLOSE) else set()
            assert settings.workers_min <= len(there) <= settings.workers_max


def test_the_end_of_a_run_is_quiet():
    for seconds in (30, 60, 600):
        settings = draw_settings(3, seconds, "at_least_once")
        assert all(fault.at_s < seconds - settings.quiet_s for fault in schedule(settings))


def test_an_entry_and_a_row_come_back_from_their_bytes():
    entry = Entry("w0.12", 4_000_000_000, (5, 3, 5, 4_294_967_295))
    assert read_entry(write_entry(entry)) == entry
    row = Row(7, 2, 2**40, 9, "w10.123")
    assert read_row(write_row(row)) == row


def test_a_digest_does_not_depend_on_the_order_but_on_how_often():
    assert digest((1, 2)) == digest((2, 1)) != digest((1, 2, 2))


def test_an_entry_with_any_byte_of_its_ids_count_or_digest_changed_is_unsound():
    sound = write_entry(Entry("w0.1", 3, (1, 2)))
    for place in range(12, len(sound)):
        with pytest.raises(Unsound):
            read_entry(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])


def test_damage_harms_what_is_there_as_its_salt_says(tmp_path):
    def folder(name):
        made = tmp_path / name
        made.mkdir()
        for number in range(5):
            (made / f"file-{number}").write_bytes(bytes(range(100)))
        return made

    def left(where):
        return {path.name: path.read_bytes() for path in where.iterdir()}

    before = left(folder("before"))
    kinds = set()
    for salt in range(20):
        first, second = folder(f"a{salt}"), folder(f"b{salt}")
        done = damage(first, salt)
        assert done == damage(second, salt)
        assert left(first) == left(second) != before
        kinds |= {text.split()[0] for text in done}
    assert kinds == {"flipped", "cut", "removed"}


def test_nothing_to_damage_is_no_failure(tmp_path):
    assert damage(tmp_path / "not there", 1) == []
