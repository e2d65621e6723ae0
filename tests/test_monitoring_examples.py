"""The dashboard and the alert rules use metrics and labels that exist, and the guide explains each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kstreams_assign.status.metric_table import HISTORY_ROWS, METRICS, Kind
from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "monitoring"
GUIDE = (EXAMPLES.parent / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
PANELS = [p for p in json.loads((FOLDER / "dashboard.json").read_text())["panels"] if p["type"] != "row"]
RULES = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]

TARGET_LABELS = {"job", "instance"}
"""What Prometheus adds to each sample."""
OPERATORS = {"and", "or", "unless", "bool", "offset", "group_left", "group_right", "inf", "nan"}
GROUPERS = {"by", "without", "on", "ignoring"}

_TOKEN = re.compile(r'"[^"]*"|\[[^\]]*\]|[A-Za-z_:$][\w:]*|[{}(),]|=~|!~|!=|[^\s\w]|\d+(?:\.\d+)?')


def sample_labels() -> dict[str, set[str]]:
    """Name of each sample -> its labels."""
    labels_by_sample = {}
    for row in (*METRICS.values(), *HISTORY_ROWS):
        if row.kind is Kind.HISTOGRAM:
            labels_by_sample |= {
                f"{row.name}_bucket": {*row.labels, "le"},
                f"{row.name}_sum": set(),
                f"{row.name}_count": set(),
            }
        else:
            labels_by_sample[f"{row.name}_info" if row.kind is Kind.INFO else row.name] = {*row.labels}
    return labels_by_sample


SAMPLES = sample_labels()


def names_in(expression: str) -> tuple[set[str], set[str]]:
    """Names of metrics and of labels in a PromQL expression."""
    tokens = [token for token in _TOKEN.findall(expression) if token[0] not in '"[']
    metrics: set[str] = set()
    labels: set[str] = set()
    in_matchers = in_group = False
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token == "{":
            in_matchers = True
        elif token == "}":
            in_matchers = False
        elif token == ")":
            in_group = False
        elif token in GROUPERS:
            in_group = True
        elif re.fullmatch(r"[A-Za-z_:][\w:]*", token) and token not in OPERATORS:
            if in_matchers or in_group:
                labels.add(token)
            elif following != "(" and following not in GROUPERS:
                metrics.add(token)
    return metrics, labels


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_the_tokenizer_tells_metrics_from_functions_and_labels():
    text = 'histogram_quantile(0.95, sum by (job, le) (rate(a_bucket{b="c", d=~"e|f"}[5m]))) > 5'
    assert names_in(text) == ({"a_bucket"}, {"job", "le", "b", "d"})
    assert names_in("sum without (g) (h) == 0 and x") == ({"h", "x"}, {"g"})
    assert names_in("max(x) - time() or vector(0)") == ({"x"}, set())
    assert names_in("deriv(sum by (job) (x)[30m:1m]) > 0") == ({"x"}, {"job"})


@pytest.mark.parametrize(("where", "expression"), [*expressions()], ids=lambda text: text[:40])
def test_every_metric_and_label_of_an_expression_exists(where, expression):
    metrics, labels = names_in(expression)
    assert metrics, where
    assert metrics <= SAMPLES.keys()
    assert labels <= TARGET_LABELS.union(*(SAMPLES[name] for name in metrics))
    assert expression.count("(") == expression.count(")")
    assert not re.search(r"(?:rate|increase)\((?!\w+_(?:total|bucket|sum|count)\b)", expression), (
        "only counters have a rate"
    )


def test_counters_are_shown_as_rates():
    for where, expression in expressions():
        for name in re.findall(r"\w+_(?:total|bucket)\b", expression):
            assert re.search(rf"(?:rate|increase)\({name}\b", expression), where


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_long_how_bad_and_what_to_do(rule: dict[str, Any]):
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    what, colon, fix = rule["annotations"]["summary"].partition(": ")
    assert colon, "what happened: what to do"
    assert fix.endswith(".")
    labels = {*re.findall(r"\$labels\.(\w+)", what)}
    assert labels
    kept = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
    assert labels <= ({*kept[0].split(", ")} if kept else TARGET_LABELS), "the expression drops this label"
    assert f"`{rule['alert']}`" in GUIDE


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_title_text_unit_and_place(panel: dict[str, Any]):
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    assert f"**{panel['title']}**" in GUIDE


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    cells = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len({*cells})


def test_every_metric_that_an_operator_alerts_on_is_scraped_where_the_guide_says():
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert scraped["scrape_configs"][0]["metrics_path"] == "/metrics"
    assert scraped["rule_files"] == ["alerts.yml"]
    assert {path.name for path in FOLDER.iterdir()} == {"alerts.yml", "dashboard.json", "prometheus.yml"}


def test_code_blocks_of_the_guide_name_their_language():
    fences = re.findall(r"^```(.*)$", GUIDE, re.MULTILINE)
    assert len(fences) % 2 == 0
    assert all(fences[::2])
    assert not any(fences[1::2])
