"""The metrics of several processes as those of one endpoint, with the number of the process as a label. Pure.

Each process's own exposition is read again, so that a merged metric has the names, kinds and help texts of a single
process, each HELP and TYPE once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kstreams_assign.status.exposing import expose
from kstreams_assign.status.metric_table import PROCESS_LABEL, SUPERVISOR_ROWS

ACCEPT = CONTENT_TYPE_LATEST
"""What to ask a process for: the older format would lose the kind of an info metric."""


def merged_exposition(
    texts: Mapping[int, str], states: Mapping[int, str], restarts: Mapping[int, int], accept: str
) -> tuple[bytes, str]:
    """Return the merged metrics in the format that the ``Accept`` header asks for, and its content type.

    ``texts``: number of a process -> its exposition in the format of ``ACCEPT``; another text is left out. ``states``
    and ``restarts`` are what the supervisor knows of each process.
    """
    return expose([*_supervisors(states, restarts), *_merged(texts)], accept)


def _supervisors(states: Mapping[int, str], restarts: Mapping[int, int]) -> Iterator[Metric]:
    processes, restarted = SUPERVISOR_ROWS
    gauge = GaugeMetricFamily(processes.name, processes.help, labels=processes.labels)
    for state, count in sorted(Counter(states.values()).items()):
        gauge.add_metric([state], count)
    yield gauge
    counter = CounterMetricFamily(restarted.name, restarted.help, labels=restarted.labels)
    for number, times in restarts.items():
        counter.add_metric([str(number)], times)
    yield counter


def _merged(texts: Mapping[int, str]) -> Iterable[Metric]:
    families: dict[str, Metric] = {}
    for number, text in texts.items():
        try:
            own: list[Metric] = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
        except ValueError:
            continue
        for family in own:
            empty = Metric(family.name, family.documentation, family.type, family.unit)
            merged = families.setdefault(family.name, empty)
            merged.samples += [
                sample._replace(labels={**sample.labels, PROCESS_LABEL: str(number)}) for sample in family.samples
            ]
    return families.values()
