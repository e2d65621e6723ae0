"""The size of a group's record, in two small groups."""

from __future__ import annotations

import json

import pytest

from bench.record_size import main


def test_a_standby_more_makes_the_record_larger(capsys: pytest.CaptureFixture[str]) -> None:
    main(["200x20x1x0", "200x20x1x1"])
    without, with_one = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert without["members"] == with_one["members"] == 21
    assert 0 < without["record_bytes"] < with_one["record_bytes"]
    assert with_one["brokers_take_it"]
    assert with_one["warnings"] == []
