"""A real Kafka Streams application with repartition topics (``RepartitionApp.java``) as a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.java.app_process import arguments
from tests.java.streams_app import JavaApp, command


class RepartitionApp(JavaApp):
    """One instance. ``shape`` and topic ``prefix`` as in the Java file; ``settings`` are Kafka Streams' own."""

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        state_dir: Path,
        shape: str,
        prefix: str,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        words = arguments(bootstrap_servers, application_id, state_dir, shape, prefix, settings=settings)
        super().__init__([*command("RepartitionApp"), *words])
