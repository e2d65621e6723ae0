"""``history follow`` from the first look at the brokers to the last line: what the command does around the query.

What lives here: checks before Spark starts (it takes seconds and says little), progress on standard error, and an
orderly end. What must not: options of the command line, and what a batch does.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.client_settings.texts import secrets_of
from kstreams_assign.errors import BrokerError, ConfigError, SparkError
from kstreams_assign.history import delta
from kstreams_assign.history.address import Out, is_address
from kstreams_assign.history.compaction import Merged, compact
from kstreams_assign.history.follow import BatchReport, Settings, follow_until_done, following, today
from kstreams_assign.history.layout import Layout, folder_of, held, refuse_second_run
from kstreams_assign.history.opening import for_reading, opened, working_folder
from kstreams_assign.history.progress import Figures, Lag, Totals, batch_line, lag_line, offsets_behind
from kstreams_assign.history.sampling import Sampler
from kstreams_assign.history.secrets import errors_without
from kstreams_assign.history.serving import served
from kstreams_assign.history.session import spark_session
from kstreams_assign.history.source import RECORDS_A_BATCH, TOPIC, Broker, Folder, Source, refuse_unknown_to_java
from kstreams_assign.history.writing import Boundary, HistoryWriter, check_folder, no_boundary
from kstreams_assign.model import HostInfo

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

WAIT_S = 2.0
SILENT_MS = 10_000
"""A batch that takes longer is mentioned so often."""


@dataclass(frozen=True)
class Asked:
    """What the command was called with. Either ``bootstrap_servers`` or ``records``."""

    out: Out
    bootstrap_servers: str | None = None
    records: Path | None = None
    master: str = "local[*]"
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Settings = field(default_factory=Settings)
    timeout_s: float = 10.0
    records_a_batch: int | None = None
    http: HostInfo | None = None
    json_log: bool = False


def follow(asked: Asked, reached: Boundary = no_boundary) -> int | None:
    """Follow until the end, or until SIGINT or SIGTERM, which is returned. Raises errors of ``errors``."""
    if not is_address(asked.out):
        local = Layout(folder_of(asked.out))
        check_folder(local)
        refuse_second_run(local)
    source, sampler = source_of(asked)
    progress = Progress(json_log=asked.json_log)
    print("starting Spark, which takes some seconds", file=sys.stderr, flush=True)
    with (
        errors_without(secrets_of(asked.client)),
        served(asked.http, lambda: progress.figures, say),
        working_folder(asked.out) as folder,
        tables_errors(asked.out),
        spark_session(
            asked.master, log=Layout(folder).log, settings=asked.conf, kafka=isinstance(source, Broker)
        ) as session,
        opened(session, asked.out, folder) as layout,
        following(
            session, source, layout, asked.settings, sampler=sampler, watch=progress.batch, reached=reached
        ) as query,
    ):
        signals = Signals()  # only now: Spark sets a handler of its own for Ctrl-C, which breaks calls under way
        say(f"reading {asked.bootstrap_servers or asked.records} into {layout.name}; Ctrl-C ends it")
        follow_until_done(query, layout, progress.look, signals.came)
        if signals.came.is_set():
            session.sparkContext.cancelAllJobs()  # the batch under way is done again the next time
        return signals.number


@contextmanager
def tables_errors(out: Out) -> Iterator[None]:
    """Raise what the tables' library and the system say in the block as errors of ours."""
    try:
        yield
    except (delta.Error, OSError) as error:
        line = str(error).partition("\n")[0]
        raise SparkError(f"--out {out}: {line}; mend that and start again; what was committed is whole") from error


class Signals:
    """The first SIGINT or SIGTERM as an event to wait for; later ones change nothing."""

    def __init__(self) -> None:
        self.came = EndRequest()
        self.number: int | None = None
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._hear)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.number = self.number or number
        self.came.set()


def source_of(asked: Asked) -> tuple[Source, Sampler | None]:
    """Where to read from, once it is known to be there, and who samples end offsets.

    Raises ``ConfigError`` for a wrong call, ``BrokerUnavailable``, and ``BrokerError`` if the topic cannot be read.
    """
    if (asked.records is None) == (asked.bootstrap_servers is None):
        raise ConfigError("history follow: give either --bootstrap-servers or --records")
    if asked.records is not None:
        if asked.records_a_batch is not None:
            raise ConfigError("--records-a-batch: a folder is read at once; leave it out with --records")
        if not asked.records.is_dir():
            raise ConfigError(
                f"--records {asked.records.absolute()}: the folder does not exist; history generate makes one"
            )
        return Folder(asked.records.absolute()), None
    assert asked.bootstrap_servers is not None
    refuse_unknown_to_java(asked.client)
    admin = ClusterAdmin(asked.bootstrap_servers, asked.client)
    partitions = _partitions(admin, asked.timeout_s, wait=not asked.settings.once)
    source = Broker(
        asked.bootstrap_servers,
        asked.client,
        partitions,
        asked.records_a_batch or RECORDS_A_BATCH,
        topic_id=admin.topic_id(TOPIC, asked.timeout_s),
    )
    return source, Sampler(admin)


def _partitions(admin: ClusterAdmin, timeout_s: float, *, wait: bool) -> int:
    """Return the topic's number of partitions. A new cluster has none until a group first commits: wait for that."""
    said = False
    while True:
        count = admin.topics(timeout_s).get(TOPIC)
        if count:
            return count
        if not wait:
            raise BrokerError(
                f"the cluster shows no topic {TOPIC}: no group has ever committed there, or this client may not "
                "describe the topic (--client)"
            )
        if not said:
            say(f"waiting: the cluster shows no topic {TOPIC} yet")
            said = True
        threading.Event().wait(WAIT_S)  # no client reports a new topic


def compact_tables(out: Out, conf: Mapping[str, str]) -> list[Merged]:
    """Merge the past days of tables to which no run writes, and delete files that are too old.

    At an address, a run that writes to them ends. ``conf`` are settings of Spark for its file system.
    """
    with tables_errors(out), for_reading(out, conf) as layout:
        check_folder(layout)
        if not layout.store.has(layout.checkpoint):
            raise ConfigError(f"--out {layout.name}: no history follow has written there; name the folder of one")
        with held(layout):
            return compact(HistoryWriter(layout), today())


def tell_batch(report: BatchReport) -> None:
    """Print one line per batch."""
    age_s = max(0, wall_ms() - report.newest_ms) // 1000
    newest = f"; newest {age_s:,} s old" if report.newest_ms else ""
    took_s = report.took_ms / 1000
    say(f"batch {report.batch}: {report.records:,} records, {report.rebalances:,} rebalances in {took_s:.1f} s{newest}")
    for note in report.notes:
        say(f"  {note}")


class Progress:
    """Reports each batch, how far the tables are then behind the topic, and that a long batch still runs.

    With ``json_log``, batches and lags are lines of JSON on standard output. Any thread may read ``figures``.
    """

    def __init__(self, *, json_log: bool = False) -> None:
        self.figures = Figures(Totals(), None)
        self._json_log = json_log
        self._batch = -1
        self._timestamp = ""
        self._news_ms = self._said_ms = monotonic_ms()
        self._lock = threading.Lock()

    def batch(self, report: BatchReport) -> None:
        """Spark's thread has put a batch into the tables."""
        now_ms = wall_ms()
        with self._lock:
            self.figures = Figures(self.figures.totals.plus(report, now_ms), self.figures.lag)
        if self._json_log:
            say(batch_line(report, now_ms), sys.stdout)
        else:
            tell_batch(report)

    def look(self, query: StreamingQuery) -> None:
        """Read what Spark reports of the query; called now and then."""
        progress, now_ms = query.lastProgress, monotonic_ms()
        if progress is not None and progress["timestamp"] != self._timestamp:
            self._timestamp = progress["timestamp"]
            self._read_lag(progress["sources"][0])
        if progress is None or progress["batchId"] == self._batch:
            if query.status["isDataAvailable"] and now_ms - self._said_ms >= SILENT_MS:
                self._said_ms = now_ms
                say(f"  still working on batch {self._batch + 1}, for {(now_ms - self._news_ms) // 1000} s")
            return
        self._batch, self._news_ms, self._said_ms = progress["batchId"], now_ms, now_ms
        self._report_lag()

    def _read_lag(self, source: Mapping[str, Any]) -> None:
        offsets = offsets_behind(source)
        time_ms = round(datetime.fromisoformat(self._timestamp).timestamp() * 1000)
        with self._lock:
            self.figures = Figures(self.figures.totals, None if offsets is None else Lag(offsets, time_ms))

    def _report_lag(self) -> None:
        lag = self.figures.lag
        if lag is None:
            return
        if self._json_log:
            say(lag_line(self._batch, self.figures, wall_ms()), sys.stdout)
        elif lag.offsets:
            say(f"  {lag.offsets:,} offsets behind the topic's end")


def say(line: str, stream: TextIO | None = None) -> None:
    """Progress, to standard error; in one piece, as batches and the watch over them are in different threads."""
    stream = stream or sys.stderr
    stream.write(f"{line}\n")
    stream.flush()
