"""The query on Spark: the same tables as without it, batch by batch, also after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kstreams_assign.errors import SparkError, StateDirectoryLocked
from kstreams_assign.history.follow import Settings, follow_until_done, following
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.source import Folder
from kstreams_assign.history.writing import ORDER, HistoryWriter
from tests.history.play import cut, failing_once_at, fleet, rows, run, write_records

BATCHES = cut(fleet(), 2)
SCRIPT = Path(__file__).with_name("killed_follow.py")


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """What comes of the two batches without Spark and without a kill."""
    layout = Layout(tmp_path_factory.mktemp("straight"))
    run(layout, BATCHES)
    return rows(layout)


@pytest.fixture
def records(tmp_path):
    return tmp_path / "records"


def follow(spark, records, layout, reached=lambda _: None):
    reports = []
    settings = Settings(once=True, tasks=2)
    with following(spark, Folder(records), layout, settings, watch=reports.append, reached=reached) as query:
        follow_until_done(query, layout, lambda _: None)
    return reports


def test_on_spark_the_tables_are_those_of_the_derivation_alone(spark, records, tmp_path, straight):
    layout = Layout(tmp_path / "out")
    write_records(records, "a.parquet", BATCHES[0])
    first = follow(spark, records, layout)
    write_records(records, "b.parquet", BATCHES[1])
    second = follow(spark, records, layout)
    assert rows(layout) == straight
    assert [report.batch for report in first + second] == [0, 1]
    assert sum(report.rebalances for report in first + second) == len(straight["rebalances"])
    assert follow(spark, records, layout) == [], "nothing new, no batch"


def test_a_query_that_fails_at_a_boundary_is_repeated_from_its_checkpoint(spark, records, tmp_path, straight):
    layout = Layout(tmp_path / "out")
    write_records(records, "a.parquet", BATCHES[0])
    follow(spark, records, layout)
    write_records(records, "b.parquet", BATCHES[1])
    to_come = [
        "derived",
        "decided",
        f"published {ORDER[2]}",
        f"published {ORDER[-1]}",
    ]
    fail = failing_once_at(to_come)
    while to_come:
        # after "decided" it is the next run that completes the tables, before its query starts
        with pytest.raises((SparkError, RuntimeError), match=f"no more after: {to_come[0]}"):
            follow(spark, records, layout, fail)
    follow(spark, records, layout)
    assert rows(layout) == straight


def test_a_run_that_another_one_has_replaced_ends_and_names_it(spark, records, tmp_path, straight):
    """On a file system without locks, from two machines."""
    layout = Layout(tmp_path / "out")
    write_records(records, "a.parquet", BATCHES[0])

    def start_another_run(where):
        if where == "derived":
            HistoryWriter(layout)

    with pytest.raises(
        StateDirectoryLocked, match=rf"another run writes to it now, process {os.getpid()} on host \S+, "
    ):
        follow(spark, records, layout, start_another_run)
    write_records(records, "b.parquet", BATCHES[1])
    for _ in BATCHES:  # the batch that had been planned, then the new one
        follow(spark, records, layout)
    assert rows(layout) == straight


def living(pids):
    """Who has not ended by now."""
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            yield psutil.Process(pid)


@pytest.mark.timeout(500)  # the killed run has a Spark of its own
@pytest.mark.parametrize("where", ["published task_placements"])
def test_after_sigkill_nothing_is_left_running_and_the_next_run_completes_the_tables(
    spark, records, tmp_path, straight, where
):
    layout = Layout(tmp_path / "out")
    write_records(records, "a.parquet", BATCHES[0])
    follow(spark, records, layout)
    write_records(records, "b.parquet", BATCHES[1])
    command = [sys.executable, str(SCRIPT), str(layout.root), str(records), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -9, done.stderr
    children = list(living(int(line.split()[0]) for line in done.stdout.splitlines()))
    assert psutil.wait_procs(children, timeout=90)[1] == []
    assert rows(layout) != straight
    follow(spark, records, layout)
    assert rows(layout) == straight
