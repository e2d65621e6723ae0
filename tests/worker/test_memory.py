"""What a worker holds of large records is bounded in bytes: by defaults, and by a limit that it is given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.worker.large_records import produce

RECORDS = 6_000
PEAK_MIB = 900
"""Below the 1,144 MiB of all that is written: 256 MiB for RocksDB's write buffers, 64 MiB each for fetched input and
for what waits for commits, copies on the way to the broker, and the libraries themselves: some 500 in all. 2,100 to
2,500 without a bound in bytes."""
LIMIT_BYTES = 512 << 20
PATIENCE_S = 240.0


def peak_of(topic: str, records: int, **settings: Any) -> float:
    """Run a worker until it has done all; return the most memory that it had, in MiB."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.large_records", json.dumps(settings), topic, str(records)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.timeout(600)  # 900 MB go through the broker twice
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_records_of_100_kilobytes_are_not_all_held_at_once(broker: str, tmp_path: Path, guarantee: str) -> None:
    topic = f"large-{guarantee.replace('_', '-')}"
    produce(broker, topic, RECORDS)
    settings = {"bootstrap_servers": broker, "processing_guarantee": guarantee}
    state, elsewhere = str(tmp_path / "state"), str(tmp_path / "elsewhere")
    assert peak_of(topic, RECORDS, application_id=topic, state_dir=state, **settings) < PEAK_MIB
    limited = {**settings, "application_id": f"{topic}-limited", "memory_limit_bytes": LIMIT_BYTES}
    assert peak_of(topic, RECORDS, state_dir=state, **limited) < LIMIT_BYTES >> 20
    assert peak_of(topic, 0, state_dir=elsewhere, **limited) < LIMIT_BYTES >> 20, "while the stores are restored"
