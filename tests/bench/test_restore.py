"""The benchmark of restore on a real broker, with few records: each of its processes restores or reads all of them."""

from __future__ import annotations

import subprocess
import sys

from bench.restore.__main__ import _commands, measure, ours
from bench.restore.fill import Changelog, produce
from bench.restore.size import starts


def test_each_process_tells_how_fast_all_records_were_and_what_memory_it_took(broker, monkeypatch):
    monkeypatch.setattr("bench.restore.__main__._java", lambda: None)
    changelog = Changelog(3_000)
    produce(broker, changelog)
    commands = _commands(broker, changelog)
    assert [name.partition(" ")[0] for name in commands] == ["ours", "raw", "raw"]
    for command in commands.values():
        run = measure(command)
        assert run.per_s > 0
        assert 10 < run.rss_mib < 1_000


def test_tasks_are_restored_side_by_side(broker):
    changelog = Changelog(3_000, partitions=3)
    produce(broker, changelog)
    assert measure(ours(broker, changelog)).per_s > 0


def test_a_start_on_the_state_that_is_there_restores_nothing(broker, tmp_path):
    changelog = Changelog(3_000, partitions=2, value_bytes=200, alike=False)
    produce(broker, changelog)
    cold, warm = starts(broker, changelog, tmp_path)
    assert (cold["start"], cold["restored"]) == ("cold", 3_000)
    assert (warm["start"], warm["restored"]) == ("warm", 0)
    assert warm["state_mb"] > 0.6


MEASURE = """
import sys
from bench.restore.__main__ import fill, memory_of
from bench.restore.fill import Changelog
for records in map(int, sys.argv[2:]):
    fill(sys.argv[1], Changelog(records))
    print(memory_of(sys.argv[1], Changelog(records)))
"""
"""In a process of its own, as a measured one counts the memory of who started it."""


def test_memory_does_not_grow_with_the_changelog(broker):
    """Its data are 200 MiB more; what may grow are buffers until they are full, and what RocksDB keeps of each file."""
    command = [sys.executable, "-c", MEASURE, broker, "200000", "2000000"]
    few, many = map(float, subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split())
    assert many - few < 90
    assert many < 400
