"""What expires when, against a dict of times that is scanned; the same entries and index on disk after a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import ConfigError, Store, TopicPartition
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import SubtopologyShape
from kstreams_assign.tasks import expiry
from kstreams_assign.tasks.expiry import ExpiringStores, horizon, index_of, indexed_by, store_names, with_expiry
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.mixed_stores import MixedStores
from kstreams_assign.tasks.stamped import stamped, value_and_time
from kstreams_assign.tasks.stores import TaskStores
from tests.samples import examples

CHANGELOG = TopicPartition("log", 0)
TIMES = st.integers(0, 60)
Entry = tuple[bytes, int | None]
"""Key and time of a write; None deletes."""
ENTRIES = st.lists(st.tuples(st.binary(max_size=1), st.none() | TIMES), max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), ENTRIES),
        st.tuples(st.just("rebuild"), ENTRIES),
        st.tuples(st.just("expire"), st.integers(-10, 80)),  # so long after the ttl
        st.tuples(st.just("open"), st.integers(1, 300)),
        st.tuples(st.just("wipe"), st.none()),
    ),
    max_size=12,
)


def shape(ttl_ms: int) -> SubtopologyShape:
    return SubtopologyShape(("in",), (Store("sessions", ttl_ms=ttl_ms), Store("other")))


def values(entries: Sequence[Entry]) -> list[tuple[bytes, bytes | None]]:
    return [(key, None if time is None else stamped(b"of " + key, time)) for key, time in entries]


@dataclass
class Twin:
    """The slow twin: the time of each entry, scanned from one end to the other."""

    ttl_ms: int
    times: dict[bytes, int] = field(default_factory=dict)

    def write(self, entries: Sequence[Entry]) -> None:
        for key, time in entries:
            if time is None:
                self.times.pop(key, None)
            else:
                self.times[key] = time

    def expired(self, now_ms: int) -> set[bytes]:
        return {key for key, time in self.times.items() if time + self.ttl_ms <= now_ms}


@settings(max_examples=examples(300))
@given(ttl_ms=st.integers(1, 300), records_max=st.integers(1, 5), sweep=st.sampled_from([1, 10_000]), steps=STEPS)
def test_what_is_due_is_what_a_scan_of_all_times_finds(
    ttl_ms: int, records_max: int, sweep: int, steps: list[tuple]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry, "_SWEEP_RECORDS", sweep)  # each write may look for old rows
        compare_with_a_scan(ttl_ms, records_max, steps)


def compare_with_a_scan(ttl_ms: int, records_max: int, steps: list[tuple]) -> None:
    inner = MemoryStores(store_names(shape(ttl_ms).stores))
    stores, twin, widths = ExpiringStores(inner, {"sessions": ttl_ms}), Twin(ttl_ms), [ttl_ms // 32]
    for step, what in steps:
        if step == "open":  # with another ttl
            stores, twin.ttl_ms = ExpiringStores(inner, {"sessions": what}), what
            widths.append(what // 32)
        elif step == "wipe":
            stores.wipe()
            twin.times.clear()
        elif step == "expire":
            expire(stores, twin, twin.ttl_ms + what, records_max, late_ms=max(widths))
        else:
            getattr(stores, step)({"sessions": values(what)}, {})
            twin.write(what)
        assert {key: value_and_time(value)[1] for key, value in stores.range("sessions")} == twin.times


def expire(stores: ExpiringStores, twin: Twin, now_ms: int, records_max: int, late_ms: int) -> None:
    """Delete what is due: nothing that has not expired, and all of it but what a coarse index finds a little later."""
    found: set[bytes] = set()
    for _ in range(1000):
        due = stores.due("sessions", now_ms, records_max=records_max, bytes_max=1 << 20)
        assert len(due.keys) <= records_max
        assert found.isdisjoint(due.keys), "what is deleted is not due again"
        found.update(due.keys)
        stores.write({"sessions": [(key, None) for key in due.keys]}, {})
        if not due.more:
            break
    assert twin.expired(now_ms - late_ms) <= found <= twin.expired(now_ms)
    assert not due.more
    stores.due("sessions", now_ms, records_max=1000, bytes_max=1 << 20)
    assert not stores.is_due("sessions", now_ms), "or each turn would look again"
    twin.write([(key, None) for key in found])


@given(st.lists(st.tuples(TIMES, st.integers(1, 400), st.integers(0, 1000)), max_size=20))
def test_the_horizon_compares_bytes_as_times(cases: list[tuple[int, int, int]]) -> None:
    for time_ms, ttl_ms, now_ms in cases:
        assert (stamped(b"", time_ms) < horizon(now_ms, ttl_ms)) is (time_ms + ttl_ms <= now_ms)


def opened(ttl_ms: int = 1000) -> ExpiringStores:
    stores = with_expiry(MemoryStores(store_names(shape(ttl_ms).stores)), shape(ttl_ms))
    assert isinstance(stores, ExpiringStores)
    return stores


def test_an_entry_written_without_a_time_never_expires() -> None:
    stores = opened()
    stores.write({"sessions": [(b"k", stamped(b"v", -1))]}, {})
    assert stores.due("sessions", 2**61, records_max=9, bytes_max=99).keys == []
    assert not stamped(b"v", -1) < horizon(2**61, 1000)


def test_rows_of_a_key_that_is_written_all_the_time_are_bounded() -> None:
    stores = opened(ttl_ms=1000)
    for time_ms in range(1000):
        stores.write({"sessions": [(b"k", stamped(b"v", time_ms))]}, {})
    assert 1 < len(list(stores.range(index_of("sessions")))) <= 35


def test_rows_of_a_copy_that_is_not_asked_what_is_due_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "_SWEEP_RECORDS", 100)
    stores, ttl_ms, most = opened(ttl_ms=320), 320, 0
    for turn in range(600):  # an entry each, which its owner deletes a ttl later, beside one that is written each time
        time_ms = 10 * turn
        entries: list[Entry] = [
            (b"all the time", time_ms),
            (b"%d" % time_ms, time_ms),
            (b"%d" % (time_ms - ttl_ms), None),
        ]
        stores.write({"sessions": values(entries)}, {})
        stores.write({"sessions": []}, {})  # as a batch that brings the offset behind a commit marker
        most = max(most, len(list(stores.range(index_of("sessions")))))
    assert {key for key, _ in stores.range("sessions")} == {
        b"all the time",
        *(b"%d" % t for t in range(5680, 6000, 10)),
    }
    assert 60 < most < 300
    assert {*stores.due("sessions", 10_000, records_max=1000, bytes_max=1 << 20).keys} == {
        key for key, _ in stores.range("sessions")
    }


def test_looking_again_and_again_finds_each_entry_within_a_fraction_of_the_ttl() -> None:
    stores, ttl_ms = opened(ttl_ms=640), 640
    stores.write({"sessions": values([(b"%d" % time, time) for time in range(100)])}, {})
    found_ms: dict[bytes, int] = {}
    for now_ms in range(ttl_ms - 10, ttl_ms + 150):
        due = stores.due("sessions", now_ms, records_max=1000, bytes_max=1 << 20)
        found_ms.update(dict.fromkeys(due.keys, now_ms))
        stores.write({"sessions": [(key, None) for key in due.keys]}, {})
    assert len(found_ms) == 100
    assert all(0 <= now_ms - ttl_ms - int(key) < ttl_ms // 32 for key, now_ms in found_ms.items())


def test_what_is_due_at_once_is_bounded_in_bytes() -> None:
    stores = opened()
    stores.write({"sessions": [(b"%04d" % n, stamped(b"v", n)) for n in range(100)]}, {})
    due = stores.due("sessions", 10_000, records_max=1000, bytes_max=60)
    assert (due.keys, due.more) == ([b"0000", b"0001", b"0002", b"0003", b"0004"], True)


def test_entries_stay_due_until_they_are_deleted() -> None:
    stores = opened()
    stores.write({"sessions": values([(b"k", 5)]), "other": [(b"k", b"plain")]}, {})
    for _ in range(2):  # a commit may fail
        assert stores.due("sessions", 5000, records_max=9, bytes_max=99).keys == [b"k"]
    assert stores.get("other", b"k") == b"plain"


def test_rows_are_dropped_with_the_entries_and_stay_with_one_that_is_written_again() -> None:
    def rows() -> list[bytes]:
        return [row[8:] for row, _ in stores.range(index_of("sessions"), bytes(8))]

    stores = opened()
    stores.write({"sessions": values([(b"a", 1), (b"b", 2), (b"a", 60)])}, {})
    assert rows() == [b"a", b"b", b"a"]
    due = stores.due("sessions", 5000, records_max=9, bytes_max=99)
    assert due.keys == [b"a", b"b"]
    stores.write({"sessions": values([(b"a", None), (b"b", None), (b"b", 3)])}, {})  # as a restore may
    assert rows() == [b"b"]
    assert stores.due("sessions", 5000, records_max=9, bytes_max=99).keys == [b"b"]


def test_names_of_indexes() -> None:
    assert store_names(shape(5).stores) == ["sessions", "other", index_of("sessions")]
    assert (indexed_by(index_of("sessions")), indexed_by("sessions")) == ("sessions", None)
    inner = MemoryStores(["a"])
    assert with_expiry(inner, SubtopologyShape(("in",), (Store("a"),))) is inner


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ttl_ms": 0}, "store s: ttl_ms = 0: must be a whole number of milliseconds, 1 to"),
        ({"ttl_ms": True}, "store s: ttl_ms = True: must be"),
        ({"ttl_ms": 1.5}, "store s: ttl_ms = 1.5: must be"),
        ({"ttl_ms": 2**63}, "must be a whole number of milliseconds, 1 to"),
        ({"ttl_ms": 5, "ttl_clock": "event"}, "store s: ttl_clock = 'event': must be one of stream, wall"),
        ({"ttl_ms": 5, "source": "in"}, "cannot be deleted from the source topic 'in', which is the changelog"),
    ],
)
def test_a_ttl_that_is_not_possible_is_refused(options: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Store("s", **options)


def test_a_store_with_a_ttl_keeps_times() -> None:
    assert Store("s", ttl_ms=5).timestamped
    assert Store("s", ttl_ms=5) == Store("s", ttl_ms=5, timestamped=True)


# --- on disk -----------------------------------------------------------------------------


def on_disk(path: Path, declared: SubtopologyShape) -> TaskStores:
    return with_expiry(open_task_stores(path, store_names(declared.stores), timestamped=declared.timestamped), declared)


PLAIN = SubtopologyShape(("in",), (Store("sessions", timestamped=True), Store("other")))


def all_due(stores: TaskStores) -> list[bytes]:
    assert isinstance(stores, ExpiringStores)
    return sorted(stores.due("sessions", 1 << 40, records_max=1000, bytes_max=1 << 20).keys)


def test_entries_written_without_a_ttl_get_their_rows_when_the_store_is_opened_with_one(tmp_path: Path) -> None:
    def write(declared: SubtopologyShape, entries: list[Entry]) -> None:
        stores = on_disk(tmp_path / "0_0", declared)
        stores.write({"sessions": values(entries)}, {})
        stores.close()

    write(PLAIN, [(b"a", 1), (b"b", 2)])
    stores = on_disk(tmp_path / "0_0", shape(1000))
    assert all_due(stores) == [b"a", b"b"]
    stores.close()
    write(PLAIN, [(b"c", 3)])  # without the index: it must not be taken for complete afterwards
    stores = on_disk(tmp_path / "0_0", shape(5))
    assert all_due(stores) == [b"a", b"b", b"c"]
    stores.wipe()
    assert all_due(stores) == []
    stores.write({"sessions": values([(b"d", 4)])}, {})
    stores.close()
    stores = on_disk(tmp_path / "0_0", shape(5))
    assert all_due(stores) == [b"d"]
    stores.close()


def test_entries_in_memory_beside_a_store_on_disk_expire(tmp_path: Path) -> None:
    declared = SubtopologyShape(("in",), (Store("sessions", ttl_ms=100, in_memory=True), Store("other")))
    in_memory = {"sessions": CHANGELOG, index_of("sessions"): None}
    stores = with_expiry(MixedStores(open_task_stores(tmp_path / "0_0", ["other"]), in_memory), declared)
    stores.rebuild({"sessions": values([(b"a", 1)]), "other": [(b"a", b"plain")]}, {CHANGELOG: 1})
    stores.write({"sessions": values([(b"b", 2)])}, {CHANGELOG: 2})
    assert all_due(stores) == [b"a", b"b"]
    stores.write({"sessions": [(b"a", None)]}, {CHANGELOG: 3})
    assert all_due(stores) == [b"b"]
    assert (stores.get("other", b"a"), stores.approximate_count("sessions")) == (b"plain", 1)
    stores.close()


def lead(path: Path) -> None:
    """Restore in bulk, commit, expire, and end without closing."""
    stores = on_disk(path, shape(100))
    stores.rebuild({"sessions": values([(b"r%d" % n, n) for n in range(200)])}, {CHANGELOG: 200})
    stores.write({"sessions": values([(b"w%d" % n, 1000 + n) for n in range(50)])}, {CHANGELOG: 250})
    assert isinstance(stores, ExpiringStores)
    due = stores.due("sessions", 200, records_max=30, bytes_max=1 << 20)
    stores.write({"sessions": [(key, None) for key in due.keys]}, {CHANGELOG: 250 + len(due.keys)})
    os._exit(0)


def test_after_a_crash_the_index_fits_the_entries_and_both_the_offsets(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", __spec__.name, str(tmp_path / "0_0")], check=True, timeout=60)
    stores = on_disk(tmp_path / "0_0", shape(100))
    entries = dict(stores.range("sessions"))
    assert (len(entries), stores.offsets()[CHANGELOG]) == (220, 280)
    assert all_due(stores) == sorted(entries)
    stores.close()


if __name__ == "__main__":
    lead(Path(sys.argv[1]))
