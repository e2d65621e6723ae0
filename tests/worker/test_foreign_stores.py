"""A worker whose changelog is of another kind of store ends at its start, naming the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import ConfigError
from tests.worker.app import PARTITIONS, App


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("has-windows", {"cleanup.policy": "compact,delete"}, "windowed and session stores"),
        ("has-versions", {"min.compaction.lag.ms": "86400000"}, "versioned stores"),
    ],
)
def test_it_is_refused_before_it_joins(
    broker: str, tmp_path: Path, name: str, settings: dict[str, str], why: str
) -> None:
    app, changelog = App(broker, name, tmp_path), f"{name}-totals-changelog"
    ClusterAdmin(broker).create_topics({changelog: PARTITIONS}, 20, configs={changelog: settings})
    worker = app.start(1)
    error = worker.until_error()
    assert isinstance(error, ConfigError)
    assert f"store 'totals': {changelog} has {next(iter(settings))} = " in str(error)
    assert why in str(error)
    assert not worker.named("assigned")
    worker.stop()
