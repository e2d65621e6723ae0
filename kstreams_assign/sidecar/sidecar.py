"""``Sidecar``: a member whose labour is an application at a socket. The composition root of this room."""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.client_settings import MESSAGE_BYTES_MAX
from kstreams_assign.errors import ConfigError, KStreamsAssignError
from kstreams_assign.events import EventListener, ListeningEvent
from kstreams_assign.sidecar.ops import Limits
from kstreams_assign.sidecar.poll import POLLED_BYTES_MAX
from kstreams_assign.sidecar.request_handler import RequestHandler
from kstreams_assign.sidecar.server import Server
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.tasks.dead_letters import RECORD_OVERHEAD_BYTES
from kstreams_assign.topology.flows import topology_shape
from kstreams_assign.topology.internal import add_repartition_counts, resolve_patterns, subscription_pattern
from kstreams_assign.worker.bad_records import BadRecords
from kstreams_assign.worker.only_run import OnlyRun
from kstreams_assign.worker.runtime import Runtime
from kstreams_assign.worker.share import apply_share

LOOKUP_TIMEOUT_S = 20.0


class Sidecar:
    """One member, and one application at a time.

    Making one locks the state directory and takes its address; raises ``ConfigError`` and ``StateDirectoryLocked``.
    ``run`` looks the topics up and blocks until ``close`` or an error; it runs once.
    """

    def __init__(self, settings: SidecarSettings, on_event: EventListener | None = None) -> None:
        config = settings.config
        largest = int(config.client.get("message.max.bytes", MESSAGE_BYTES_MAX)) - RECORD_OVERHEAD_BYTES
        shared, _ = apply_share(config, None)
        counts: dict[str, int] = {}
        limits = Limits(
            config.buffered_records_max,
            largest,
            counts,
            written_bytes_max=shared.memory.output_buffer_max_bytes,
            polled_bytes_max=min(POLLED_BYTES_MAX, shared.batch_bytes_max),
        )
        bad_records = BadRecords([flow.on_error for flow in settings.flows], config)
        handler = RequestHandler(limits, bad_records, exactly_once=config.exactly_once)
        self._server = Server(settings.address, config.socket_token, handler, config.max_poll_interval_ms)
        try:
            self._runtime = Runtime(
                config,
                settings.flows,
                handler,
                on_event,
                settings.global_tables,
                first_look=lambda admin: counts.update(_partition_counts(settings, admin)),
            )
        except KStreamsAssignError:
            self._server.stop()
            raise
        self._only_run = OnlyRun(type(self).__name__)
        self._log = self._runtime.log
        self._welcome = {"application_id": config.application_id, "process_id": str(self._runtime.process_id)}
        handler.when_ready, handler.drain = self._serve, self._runtime.drain
        handler.restart = self.restart
        handler.queries.query, handler.queries.locate = self._runtime.query, self._runtime.locate

    @property
    def address(self) -> str:
        """Where applications connect to."""
        return self._server.address

    def run(self) -> None:
        """Join the group and serve until ``close``. Raises what ended it, as ``Runtime.run`` does."""
        self._only_run.begin()
        try:
            self._runtime.run()
        finally:
            self._server.stop()
        if self._server.failure is not None:
            raise self._server.failure

    def _serve(self) -> None:
        self._server.start(self._welcome, on_failure=self._runtime.close)
        self._log.emit(ListeningEvent(socket=self.address))

    def drain(self) -> None:
        """Leave without silence; see ``Runtime.drain``. The application is served meanwhile."""
        self._runtime.drain()

    def restart(self) -> None:
        """End ``run`` for a restart; see ``Runtime.close``. From any thread or a signal handler."""
        self._runtime.close(restart=True)

    def close(self, *, restart: bool = False) -> None:
        """End ``run``: what the application asked to commit is committed. From any thread or a signal handler."""
        self._runtime.close(restart=restart)


def _partition_counts(settings: SidecarSettings, admin: ClusterAdmin) -> Mapping[str, int]:
    """Of all topics. One that is missing would only be missed at a join or a commit, too late to say so."""
    config, shape = settings.config, topology_shape(settings.flows)
    if subscription_pattern(shape) is not None:
        there = admin.topics(LOOKUP_TIMEOUT_S)
        shape = resolve_patterns(shape, config.application_id, there)
    named = {sink: topic for flow in settings.flows for sink, topic in flow.sinks.items()}
    wanted = {*named.values(), *shape.source_topics} - shape.repartition_topics.keys()
    counts = admin.partition_counts(wanted, LOOKUP_TIMEOUT_S)
    if missing := sorted(wanted - counts.keys()):
        raise ConfigError(f"topology: the brokers have no topic {', '.join(missing)}; create it first")
    whole = add_repartition_counts(shape, counts)
    return {**whole, **{sink: whole[topic] for sink, topic in named.items()}}
