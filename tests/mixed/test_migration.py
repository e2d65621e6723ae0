"""Three Java instances are replaced by Python workers, one at a time, under load; ``bench/migration`` measures it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from bench.migration import INSTANCES, QUICK, migrate, silence
from tests.mixed.stage import Stage


@pytest.mark.timeout(600)  # six half steps, each with its own limit
def test_a_java_group_becomes_a_python_group_and_loses_nothing(
    broker: str,
    java_peer: object,  # noqa: ARG001  # says whether Java can be compiled
    tmp_path: Path,
) -> None:
    with closing(Stage(broker, "migration", tmp_path, QUICK.partitions, QUICK.standbys, timed=True)) as stage:
        run = migrate(stage, "python", QUICK)
    print(run)
    assert (run.counts.lost, run.counts.twice, run.counts.went_back) == (0, 0, 0)
    silences = [*run.moved_ms.values(), *run.stayed_ms.values()]
    assert sum(map(len, silences)) == 2 * INSTANCES * QUICK.partitions
    assert min(map(min, silences)) > 0, "there was output in each half step"


def test_a_silence_belongs_to_the_interval_of_its_middle() -> None:
    times = [0, 100, 200, 900, 1_000, 1_050]
    assert silence(times, 0, 600) == 700
    assert silence(times, 600, 2_000) == 100
    assert silence(times, 3_000, 4_000) == 0
