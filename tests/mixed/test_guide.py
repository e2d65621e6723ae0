"""``docs/how-to/java.md``, word for word: its program and commands, in their order, against a real Java application."""

from __future__ import annotations

import re
import shlex
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.model import TopicPartition
from tests.java.app_process import PATIENCE_S
from tests.java.streams_app import StreamsApp
from tests.mixed.stage import until

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "java.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^((?:kstreams-assign|python) .*)$", GUIDE, re.MULTILINE)
PARTITIONS = 4
LIMIT_S = 180.0
KEYS = [b"customer-%d" % number for number in range(60)]


class Payments:
    """The application of the guide: its topic, what was sent, and the totals that the changelog has."""

    def __init__(self, broker: str, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self._sent: Counter[bytes] = Counter()
        self._admin = ClusterAdmin(broker)
        self._admin.create_topics({"payments": PARTITIONS}, PATIENCE_S)

    @contextmanager
    def java(self, number: int) -> Iterator[StreamsApp]:
        with closing(StreamsApp(self.broker, "payments-app", self.folder / f"java-{number}", ["payments"], 1)) as app:
            yield app

    def command(self, line: str) -> list[str]:
        """A line of the guide, on this machine and with this broker."""
        program, *words = shlex.split(line.replace("localhost:9092", self.broker))
        return [sys.executable, *(["-m", "kstreams_assign"] if program == "kstreams-assign" else []), *words]

    def said(self, line: str) -> str:
        """What a command prints; it has to succeed."""
        done = subprocess.run(
            self.command(line), cwd=self.folder, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def counted_more(self) -> None:
        """Send, and wait until the changelog has every payment, whichever member counts it."""
        with closing(RecordProducer(self.broker, delivery_timeout_ms=round(PATIENCE_S * 1_000))) as producer:
            for key in KEYS:
                producer.produce("payments", None, key, b"x")
            producer.flush(PATIENCE_S)
        self._sent.update(KEYS)
        totals: dict[bytes, int] = {}
        with closing(InputConsumer(self.broker, group_id="guide")) as reader:
            changelog = "payments-app-totals-payments-changelog"
            reader.add({TopicPartition(changelog, partition): 0 for partition in range(PARTITIONS)})

            def same() -> bool:
                for records in reader.poll(10_000, 0.2).values():
                    totals.update((record.key or b"", *struct.unpack(">q", record.value or b"")) for record in records)
                return totals == self._sent

            until(same, LIMIT_S, "every payment is counted", [])


def who(inspected: str) -> set[str]:
    """Whose processes are in the group, as ``inspect`` says of each."""
    return set(re.findall(r"((?:not )?ours), version", inspected))


def test_the_guide_has_the_commands_that_are_run_here() -> None:
    looks = "kstreams-assign inspect payments-app -b localhost:9092 --topology topology.txt"
    asks = "kstreams-assign what-if payments-app -b localhost:9092 --topology topology.txt --add 1"
    assert [looks, asks, "python payments.py localhost:9092", looks, looks] == COMMANDS


@pytest.mark.timeout(600)  # several waits, each with its own limit
def test_a_python_worker_joins_takes_all_over_and_gives_it_back(
    broker: str,
    java_peer: object,  # noqa: ARG001  # says whether Java can be compiled
    tmp_path: Path,
) -> None:
    looks, asks, joins, looks_again, looks_last = COMMANDS
    (program,) = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    (tmp_path / "payments.py").write_text(program, encoding="utf-8")
    payments = Payments(broker, tmp_path)
    with payments.java(1) as first:
        until(lambda: first.has_tasks(active=PARTITIONS), LIMIT_S, "Java runs alone", [first])
        (tmp_path / "topology.txt").write_text(first.describe(), encoding="utf-8")
        payments.counted_more()
        assert who(payments.said(looks)) == {"not ours"}
        assert "add 1" in payments.said(asks)
        with subprocess.Popen(payments.command(joins), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
            try:
                shared = {"active": PARTITIONS // 2, "standby": PARTITIONS // 2}
                until(lambda: first.has_tasks(**shared), LIMIT_S, "half of it is Python's", [first])
                payments.counted_more()
                assert who(payments.said(looks_again)) == {"ours", "not ours"}
                first.close()
                payments.counted_more()
                assert who(payments.said(looks_last)) == {"ours"}
                with payments.java(2) as second:
                    until(lambda: second.has_tasks(**shared), LIMIT_S, "Java is back", [second])
                    payments.counted_more()
                    worker.send_signal(signal.SIGINT)
                    assert worker.wait(PATIENCE_S) == 0
                    until(lambda: second.has_tasks(active=PARTITIONS), LIMIT_S, "Java has it all", [second])
                    payments.counted_more()
            finally:
                worker.kill()
