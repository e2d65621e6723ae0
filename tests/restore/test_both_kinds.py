"""A task with a store on disk and one in memory, restored, restarted, and with changelogs that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.restore.loop import Purpose, Restored, StartedOver
from kstreams_assign.tasks.mixed_stores import MixedStores
from kstreams_assign.tasks.stores import TaskStores
from tests.restore.logs import P0, Q0, T0, Log, LogReader, only, records, restorer, steps

KEPT, QUICK = P0, Q0
STORE_OF = {KEPT: "kept", QUICK: "quick"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0_0"


def opened(path: Path) -> MixedStores:
    return MixedStores(open_task_stores(path, ["kept"]), {"quick": QUICK})


def restored(reader: LogReader, stores: TaskStores) -> list[StartedOver]:
    """Restore the task; return what was said about starting over."""
    loop = restorer(reader)
    loop.add(T0, stores, STORE_OF, Purpose.ACTIVE)
    events = steps(loop, 60)
    assert only(Restored, events) == [Restored(T0, stores)]
    for changelog, store in STORE_OF.items():
        assert dict(stores.range(store)) == reader.logs[changelog].state()
        assert stores.offsets()[changelog] == reader.logs[changelog].end
    return only(StartedOver, events)


def logs() -> LogReader:
    return LogReader({KEPT: Log(entries=records(20), topic_id="k"), QUICK: Log(entries=records(10), topic_id="q")})


def test_after_a_restart_the_one_in_memory_is_read_from_the_start_and_the_other_goes_on(path: Path) -> None:
    reader = logs()
    first = opened(path)
    assert restored(reader, first) == []
    first.close()
    reader.logs[KEPT].append((b"new", b"1"))
    reader.logs[QUICK].append((b"key-3", None), (b"new", b"1"))
    again, added = opened(path), []
    add = reader.add
    reader.add = lambda positions: (added.append(dict(positions)), add(positions))  # type: ignore[method-assign, assignment]
    assert restored(reader, again) == []
    assert added == [{KEPT: 20, QUICK: 0}]
    again.close()


def test_stores_that_come_back_from_the_loop_go_on_where_they_were(path: Path) -> None:
    """A failed commit, or a task that becomes a standby: the process is the same, and so are the stores."""
    reader, stores = logs(), opened(path)
    restored(reader, stores)
    reader.logs[QUICK].append((b"new", b"1"))
    assert restored(reader, stores) == []
    stores.close()


@pytest.mark.parametrize("changelog", STORE_OF, ids=str)
@pytest.mark.parametrize("how", ["deleted and created again", "shorter", "begins later"])
def test_if_a_changelog_does_not_fit_both_are_wiped_and_restored(path: Path, changelog: object, how: str) -> None:
    reader, stores = logs(), opened(path)
    restored(reader, stores)
    log = reader.logs[changelog]
    if how == "deleted and created again":
        reader.logs[changelog] = Log(entries=records(30, 100), topic_id="new")
    elif how == "shorter":
        reader.logs[changelog] = Log(entries=records(4), topic_id=log.topic_id)
    else:
        log.append(*records(30, 200))
        log.truncate_to(25)
    [over] = restored(reader, stores)
    assert str(changelog) in over.reason
    stores.close()


def test_one_in_memory_whose_changelog_was_replaced_while_no_process_ran_is_no_reason_to_start_over(path: Path) -> None:
    reader, stores = logs(), opened(path)
    restored(reader, stores)
    stores.close()
    reader.logs[QUICK] = Log(entries=records(3, 100), topic_id="new")
    again = opened(path)
    assert restored(reader, again) == []
    again.close()
