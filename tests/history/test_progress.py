"""Progress of ``history follow``: lines, metrics, and how far the tables are behind the topic."""

from __future__ import annotations

import json
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kstreams_assign.errors import ConfigError
from kstreams_assign.history import live
from kstreams_assign.history.follow import BatchReport
from kstreams_assign.history.progress import Figures, Lag, Totals, offsets_behind
from kstreams_assign.history.serving import served
from kstreams_assign.model import HostInfo
from kstreams_assign.status.metric_table import HISTORY, HISTORY_ROWS

BATCH = BatchReport(batch=7, records=30, rebalances=2, newest_ms=5_000, took_ms=1_500)
START = "2026-11-26T12:00:00.250Z"
START_MS = 1_795_694_400_250


class Query:
    """A streaming query as far as progress looks at it."""

    def __init__(self, **progress):
        self.lastProgress = progress or None
        self.status = {"isDataAvailable": True}


def kafka(batch, end, latest, timestamp=START):
    source = {"endOffset": {"t": end}, "latestOffset": {"t": latest}}
    return Query(batchId=batch, timestamp=timestamp, sources=[source])


def test_a_line_is_written_in_one_piece(monkeypatch):
    written = []

    class Pieces:
        @staticmethod
        def write(text: str) -> None:
            written.append(text)

        @staticmethod
        def flush() -> None:
            written.append("flush")

    monkeypatch.setattr("sys.stderr", Pieces)
    live.say("batch 0: 3 records")
    live.say("  still working on batch 1")
    assert written == ["batch 0: 3 records\n", "flush", "  still working on batch 1\n", "flush"]


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 6}}, 6),  # a partition that was added
        ({"t": {"0": 9}}, {"t": {"0": 5}}, 0),  # the topic was made again
        ("{'t': {'0': 5}}", "{'t': {'0': 6}}", 1),  # as pyspark has it
        ("{'logOffset': 3}", "None", None),
        ("{'t': {'0': 5}}", "of another kind", None),
        ({"logOffset": 3}, None, None),  # files
        (None, None, None),
    ],
)
def test_offsets_behind_are_those_of_all_partitions(end, latest, behind):
    assert offsets_behind({"endOffset": end, "latestOffset": latest}) == behind


def test_the_seconds_behind_need_a_lag_and_a_newest_record():
    assert Lag(0, 1).seconds(newest_ms=0, now_ms=9_000) == 0
    assert Lag(3, 1).seconds(newest_ms=0, now_ms=9_000) is None
    assert Lag(3, 1).seconds(newest_ms=4_000, now_ms=9_000) == 5
    assert Lag(3, 1).seconds(newest_ms=9_500, now_ms=9_000) == 0


def test_totals_add_up_and_keep_the_newest_record():
    older = BatchReport(batch=8, records=1, rebalances=0, newest_ms=4_000, took_ms=10)
    assert Totals().plus(BATCH, 9).plus(older, 11) == Totals(2, 31, 2, 5_000, 10, 11)


def test_without_json_lines_go_to_standard_error_and_a_lag_is_said_once_a_batch(capsys):
    progress = live.Progress()
    progress.batch(BATCH)
    for query in (Query(), kafka(7, {"0": 1}, {"0": 3}), kafka(7, {"0": 1}, {"0": 1_004}, "2026-11-26T12:00:10Z")):
        progress.look(query)
    captured = capsys.readouterr()
    assert captured.out == ""
    first, *others = captured.err.splitlines()
    assert first.startswith("batch 7: 30 records, 2 rebalances in 1.5 s; newest ")
    assert others == ["  2 offsets behind the topic's end"]
    assert progress.figures.lag == Lag(1_003, START_MS + 9_750), "an idle query still measures"


def test_json_lines_have_the_batch_and_the_lag(capsys):
    progress = live.Progress(json_log=True)
    progress.batch(BATCH)
    progress.look(kafka(7, {"0": 1}, {"0": 3}))
    captured = capsys.readouterr()
    batch, lag = map(json.loads, captured.out.splitlines())
    assert captured.err == ""
    assert batch.pop("time_ms") <= lag.pop("time_ms")
    figures = {"batch": 7, "records": 30, "rebalances": 2, "newest_ms": 5_000, "took_ms": 1_500, "notes": []}
    assert batch == {"event": "history_batch", **figures}
    assert lag.pop("seconds") > 0
    assert lag == {"event": "history_lag", "batch": 7, "offsets": 2}


def test_every_metric_of_the_table_has_its_value():
    figures = Figures(Totals().plus(BATCH, 8_000), Lag(2, 6_000))
    values = figures.values(9_000)
    assert values == {
        f"{HISTORY}_batches_total": 1,
        f"{HISTORY}_records_total": 30,
        f"{HISTORY}_rebalances_total": 2,
        f"{HISTORY}_batch_duration_seconds": 1.5,
        f"{HISTORY}_batch_timestamp_seconds": 8,
        f"{HISTORY}_lag": 2,
        f"{HISTORY}_lag_seconds": 4,
        f"{HISTORY}_lag_timestamp_seconds": 6,
    }
    assert len(values) == len(HISTORY_ROWS)


def test_what_is_not_known_is_left_out():
    assert Figures(Totals(), None).values(9_000).keys() == {
        f"{HISTORY}_batches_total",
        f"{HISTORY}_records_total",
        f"{HISTORY}_rebalances_total",
    }


def test_the_endpoint_shows_the_figures_and_ends_with_the_run():
    said = []
    progress = live.Progress(json_log=True)
    with served(HostInfo("127.0.0.1", 0), lambda: progress.figures, said.append):
        (line,) = said
        url = line.removeprefix("metrics at ")
        progress.batch(BATCH)
        with urlopen(url) as reply:
            read = {each.name: each.samples[0].value for each in text_string_to_metric_families(reply.read().decode())}
        with pytest.raises(HTTPError, match="404") as missing:
            urlopen(url.removesuffix("/metrics"))
        missing.value.close()
        with (
            pytest.raises(ConfigError, match="cannot listen there: the address is in use"),
            served(
                HostInfo("127.0.0.1", int(url.split(":")[2].partition("/")[0])), lambda: progress.figures, said.append
            ),
        ):
            pass
    assert read[f"{HISTORY}_records"] == 30
    with pytest.raises(OSError, match="refused"):
        urlopen(url)
