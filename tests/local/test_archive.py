"""The archive of the broker's classes: made once and whole, used by brokers, passed over where it does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker, archive, server


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the archive belongs for this test; there is none yet."""
    path = tmp_path / "archives" / "broker.jsa"
    for module in (archive, server):
        monkeypatch.setattr(module, "archive_of", lambda *_: path)
    return path


def maps(broker: LocalBroker) -> str:
    """The files that the JVM has mapped into its memory."""
    return Path(f"/proc/{broker.pid}/maps").read_text(encoding="utf-8")


def silent(_line: str) -> None:
    pass


@pytest.mark.broker
def test_it_is_made_once_and_whole_and_then_a_broker_uses_it(place):
    said = []
    assert archive.make_archive(said.append) == place
    assert said == ["preparing faster starts of the broker (once)"]
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    made = place.stat()
    assert archive.make_archive(said.append) == place
    assert (place.stat().st_mtime_ns, len(said)) == (made.st_mtime_ns, 1)
    with LocalBroker(progress=silent) as broker:
        assert str(place) in maps(broker)


@pytest.mark.parametrize("content", [b"", b"x" * 10_000], ids=["empty", "not one"])
def test_a_broker_starts_without_one_that_does_not_fit(place, content):
    place.parent.mkdir()
    place.write_bytes(content)
    with LocalBroker(progress=silent) as broker:
        assert broker.running


def test_a_java_that_makes_none_is_named(tmp_path):
    with pytest.raises(LocalBrokerError, match=r"java makes no archive of the broker's classes: [^$]*No such file"):
        archive._dump(find_java(), "a.jar", tmp_path / "missing", tmp_path / "broker.jsa")
