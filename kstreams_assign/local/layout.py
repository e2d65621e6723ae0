"""A broker's data folder: its settings as files, its log, its records.

Pure text and paths. One process is broker and controller (KRaft combined mode) unless the controller is separate. It
is small enough for a laptop and quick enough for a test: no rebalance delay, few internal partitions, short sessions
allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kstreams_assign.local.access import Access, Ports, Role

_OPEN = Access()


class Layout(NamedTuple):
    """The files below one data folder."""

    root: Path
    role: Role = Role.COMBINED
    access: Access = _OPEN

    @property
    def properties(self) -> Path:
        return self.root / "server.properties"

    @property
    def log_settings(self) -> Path:
        return self.root / "log4j2.properties"

    @property
    def log(self) -> Path:
        return self.root / f"{_NAMES[self.role]}.log"

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def controller(self) -> Layout:
        """The folder of the separate controller of this broker."""
        return Layout(self.root / "controller", Role.CONTROLLER, Access(users=self.access.users))

    @property
    def formatted(self) -> bool:
        return (self.records / "meta.properties").exists()

    def write(self, ports: Ports, settings: Mapping[str, str]) -> None:
        """Write the settings for a start on ``ports`` into the folder; ``settings`` override ours."""
        self.root.mkdir(parents=True, exist_ok=True)
        merged = {**server_properties(ports, self.records, self.role, self.access), **settings}
        self.properties.touch()
        self.properties.chmod(0o600)  # it may contain passwords
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in merged.items()), encoding="utf-8")
        self.log_settings.write_text(_LOG4J2, encoding="utf-8")

    def last_lines(self, count: int = 12) -> str:
        """Return the end of the log, for an error message."""
        try:
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
        except FileNotFoundError:
            return ""


_NAMES = {Role.COMBINED: "broker", Role.BROKER: "broker", Role.CONTROLLER: "controller"}


def server_properties(
    ports: Ports, records: Path, role: Role = Role.COMBINED, access: Access = _OPEN
) -> dict[str, str]:
    """Return Kafka's ``server.properties`` for a single broker, or for its controller."""
    return {
        "process.roles": role,
        "node.id": "2" if role is Role.CONTROLLER else "1",
        "controller.quorum.voters": f"{1 if role is Role.COMBINED else 2}@127.0.0.1:{ports.controller}",
        "log.dirs": str(records),
        **access.settings(ports, role),
        **_SMALL_AND_QUICK,
    }


_SMALL_AND_QUICK = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # A killed broker can register again only after its old session has ended; the default is 9 s.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "100",
    # Records of tests may have times of the past. Kafka prefers log.retention.ms and .minutes of the caller to this.
    "log.retention.hours": "-1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.network.threads": "2",
    "num.io.threads": "4",
}

_LOG4J2 = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c{1})%n
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = INFO
"""
