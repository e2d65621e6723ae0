"""A mixed group of Java instances of any release and Python workers, under load, and the versions in its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from kstreams_assign import Config, Subtopology
from kstreams_assign.adapters.confluent import InputConsumer
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC, kept_in
from kstreams_assign.wire import (
    FutureSubscription,
    GroupMetadata,
    GroupMetadataKey,
    StoredMember,
    decode_assignment,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_group_metadata,
    decode_subscription,
    encode_offsets_key,
)
from tests.java.app_process import PATIENCE_S
from tests.java.streams_app import StreamsApp
from tests.mixed.python_app import counting
from tests.mixed.stage import Stage
from tests.worker.app import Running

AT_ONCE, PER_S = 400, 100
SESSION_MS = 12_000
"""No session may expire on a busy machine, as another would lead then; Java 4.3.1 closes silently and is waited for."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Versions of one generation: (used, newest supported) per member, (version, newest for all) of the answers."""

    generation: int
    led_by: str
    java: tuple[tuple[int, int], ...]
    python: tuple[tuple[int, int], ...]
    answered: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"generation {self.generation}: led by {self.led_by}; "
            f"Java {_describe_versions(self.java)}; Python {_describe_versions(self.python)}; "
            f"answered in {self.answered[0]}, all support {self.answered[1]}"
        )


class Group(Stage):
    """An application that is counted from its start. Python workers run in this process, so a test may change them."""

    def __init__(self, servers: str, name: str, folder: Path, partitions: int) -> None:
        super().__init__(servers, name, folder, partitions, standbys=0)
        self._workers: list[Running] = []
        self.send(at_once=AT_ONCE, per_s=PER_S)

    def java(self, release: str, number: int = 0, **settings: object) -> StreamsApp:
        """Start an instance of this release on the state directory of this number."""
        dotted = {"session.timeout.ms": SESSION_MS} | {key.replace("_", "."): value for key, value in settings.items()}
        folder = self._folder / f"java-{number}"
        app = StreamsApp(self.servers, self.name, folder, [self.topic], settings=dotted, release=release)
        self._apps.append(app)
        return app

    def python(self, number: int = 0) -> Running:
        config = Config(
            application_id=self.name,
            bootstrap_servers=self.servers,
            state_dir=str(self._folder / f"python-{number}"),
            session_timeout_ms=SESSION_MS,
        )
        store = f"totals-{self.topic}"
        worker = Running(config, [Subtopology(counting(store), sources=[self.topic], stores=[store])])
        self._workers.append(worker)
        return worker

    def all_counted(self) -> bool:
        """Return whether, at the end of the load, each input was counted once and no state was ever lost."""
        counts = self.counted()
        assert (counts.lost, counts.twice, counts.went_back) == (0, 0, 0), counts
        return counts.inputs > AT_ONCE

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        super().close()

    def spoken(self) -> list[Spoken]:
        """Return every generation of which the brokers have a record, oldest first."""
        where = kept_in(self._admin, OFFSETS_TOPIC, self.name, PATIENCE_S)
        key, end = encode_offsets_key(GroupMetadataKey(self.name)), self._admin.bounds([where], PATIENCE_S)[where][1]
        records: dict[int, GroupMetadata] = {}
        with closing(InputConsumer(self.servers, group_id=self.name)) as reader:
            reader.add({where: 0})
            read = 0
            while read < end - 1:
                for record in reader.poll(10_000, 1.0).get(where, ()):
                    read = record.offset
                    if record.key == key and record.value is not None:
                        metadata = decode_group_metadata(record.value)
                        records[metadata.generation] = metadata
        return [_spoken(records[generation]) for generation in sorted(records) if records[generation].members]


def _spoken(metadata: GroupMetadata) -> Spoken:
    java = [member for member in metadata.members if "-StreamThread-" in member.client_id]
    python = [member for member in metadata.members if member not in java]
    answered = {_answer(member) for member in metadata.members}
    assert len(answered) == 1, answered
    return Spoken(
        metadata.generation,
        "Java" if any(member.member_id == metadata.leader for member in java) else "Python",
        tuple(sorted(map(_versions, java))),
        tuple(sorted(map(_versions, python))),
        answered.pop(),
    )


def _versions(member: StoredMember) -> tuple[int, int]:
    info = decode_subscription(decode_consumer_subscription(member.subscription).user_data or b"")
    return info.used_version if isinstance(info, FutureSubscription) else info.version, info.latest_supported_version


def _answer(member: StoredMember) -> tuple[int, int]:
    info = decode_assignment(decode_consumer_assignment(member.assignment).user_data or b"")
    return info.version, info.commonly_supported_version


def _describe_versions(versions: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{used} (supports {newest})" for used, newest in versions) or "none"


def in_turn(values: Iterable[object]) -> list[object]:
    """Return the values without repetitions."""
    return [value for value, _ in groupby(values)]
