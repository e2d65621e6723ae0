"""Metric families as the text that a Prometheus collector reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kstreams_assign.status.metric_table import Kind, MetricRow


def expose(metrics: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Return the families in the format that the ``Accept`` header asks for, and its content type.

    A header that the library cannot read asks for nothing.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reading(metrics))
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # of a version that is not numeric
        encode, content_type = choose_encoder("")
    return encode(registry), content_type


def expose_values(rows: Iterable[MetricRow], values: Mapping[str, float], accept: str) -> tuple[bytes, str]:
    """Return counters and gauges without labels, as ``expose`` does; a row without a value is left out."""
    makers = {Kind.COUNTER: CounterMetricFamily, Kind.GAUGE: GaugeMetricFamily}
    metrics = [makers[row.kind](row.name, row.help, value=values[row.name]) for row in rows if row.name in values]
    return expose(metrics, accept)


class _Reading(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics

    def describe(self) -> Iterable[Metric]:
        """Nothing to compare names with: each registry holds one reading."""
        return ()
