"""Metrics of several processes as one exposition, read again by Prometheus' own parsers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from kstreams_assign.status.merged import ACCEPT, merged_exposition
from kstreams_assign.status.metric_table import SUPERVISOR_ROWS, Kind
from kstreams_assign.status.metrics import exposition
from tests.status.statuses import settled, warming

READERS = {"": read_text, ACCEPT: read_open_metrics}


def text_of(status):
    return exposition(status, ACCEPT)[0].decode()


def samples(text, reader):
    """Return name and labels of every sample, with its value."""
    families = list(reader(text))
    pairs = [((s.name, *sorted(s.labels.items())), s.value) for family in families for s in family.samples]
    assert len(dict(pairs)) == len(pairs), "no sample twice"
    return dict(pairs)


@pytest.mark.parametrize("accept", READERS)
def test_every_sample_of_each_process_is_there_with_its_number_and_no_other(accept):
    statuses = {0: settled(), 4: replace(warming(), records_total=7)}
    body, content_type = merged_exposition({n: text_of(s) for n, s in statuses.items()}, {}, {}, accept)
    expected = {
        (name, *sorted([*labels, ("process", str(number))])): value
        for number, status in statuses.items()
        for (name, *labels), value in samples(exposition(status, accept)[0].decode(), READERS[accept]).items()
    }
    assert samples(body.decode(), READERS[accept]) == expected
    assert ("openmetrics" in content_type) == bool(accept)


@pytest.mark.parametrize("accept", READERS)
def test_each_metric_has_its_help_and_type_once_as_in_a_single_process(accept):
    merged = merged_exposition({n: text_of(settled()) for n in range(3)}, {}, {}, accept)[0].decode().splitlines()
    single = exposition(settled(), accept)[0].decode().splitlines()
    heads = [line for line in merged if line.startswith("# ")]
    assert len(heads) == len(set(heads))
    assert {line for line in single if line.startswith("# ")} <= set(heads)


def test_the_supervisor_counts_processes_by_state_and_restarts_by_process():
    body, _ = merged_exposition({}, {0: "running", 1: "resting", 2: "running"}, {0: 0, 1: 5}, "")
    assert samples(body.decode(), read_text) == {
        ("kstreams_assign_processes", ("state", "resting")): 1,
        ("kstreams_assign_processes", ("state", "running")): 2,
        ("kstreams_assign_process_restarts_total", ("process", "0")): 0,
        ("kstreams_assign_process_restarts_total", ("process", "1")): 5,
    }


def test_the_rows_of_the_supervisor_are_kinds_that_are_written():
    assert [row.kind for row in SUPERVISOR_ROWS] == [Kind.GAUGE, Kind.COUNTER]


@pytest.mark.parametrize("text", ["", "<html>", "kstreams_assign_live x\n# EOF\n"])
def test_a_text_that_is_no_exposition_is_left_out(text):
    assert merged_exposition({0: text_of(settled()), 1: text}, {}, {}, "") == merged_exposition(
        {0: text_of(settled())}, {}, {}, ""
    )
