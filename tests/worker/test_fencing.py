"""Two processes with one ``group_instance_id``: the earlier one ends with an error that names key, value and remedy."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.errors import InstanceFenced
from tests.worker.app import PARTITIONS, App


def test_the_process_whose_instance_id_another_takes_ends_at_once_and_the_other_works(
    broker: str, tmp_path: Path
) -> None:
    app = App(broker, "two-of-one-name", tmp_path)
    first = app.start(1, group_instance_id="one")
    first.until_running(PARTITIONS)
    second = app.start(2, group_instance_id="one")
    error = first.until_error()
    assert isinstance(error, InstanceFenced)
    assert "group_instance_id = 'one': another process has joined with it; each process needs its own" in str(error)
    first.join()
    second.until_running(PARTITIONS)
    app.send([b"word-%d" % n for n in range(100)])
    app.until_counted()
    app.stop()
