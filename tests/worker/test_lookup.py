"""Interactive queries on a real broker: who has a key, and its value from the owner or from a standby."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.errors import ConfigError, KeyNotLocal
from tests.adapters.confluent_cluster import until
from tests.worker.app import PARTITIONS, App, Running

WORDS = [b"word-%d" % (n % 41) for n in range(2_000)]


def totals(running: Running, app: App) -> dict[bytes, int] | None:
    """What its stores say, of tasks and of copies; None while it does not have all of them."""
    try:
        return {word: int(running.worker.read("totals", word, allow_standby=True) or 0) for word in app.sent}
    except KeyNotLocal:
        return None


def test_every_key_is_found_at_its_owner_and_behind_it_at_a_standby(broker: str, tmp_path: Path) -> None:
    app = App(broker, "lookup", tmp_path)
    try:
        app.send(WORDS)
        settings = {"num_standby_replicas": 1}
        first = app.start(1, application_server="127.0.0.1:7001", **settings)
        second = app.start(2, application_server="127.0.0.1:7002", **settings)
        first.until_running(PARTITIONS // 2)
        second.until_running(PARTITIONS // 2)
        app.until_counted()
        app.until_committed()  # then it is in the owners' stores; standbys follow
        workers = {"127.0.0.1:7001": first, "127.0.0.1:7002": second}
        for worker in workers.values():
            until(lambda asked=worker: totals(asked, app), lambda counted: counted == app.sent)
        owners = set()
        for word, count in app.sent.items():
            place = first.worker.locate("totals", word)
            assert place == second.worker.locate("totals", word)
            (standby,) = place.standbys
            assert {place.active, standby} == workers.keys()
            owners.add(place.active)
            assert workers[place.active].worker.read("totals", word) == b"%d" % count
            assert workers[standby].worker.read("totals", word, allow_standby=True) == b"%d" % count
            with pytest.raises(KeyNotLocal, match=f"active: {place.active}"):
                workers[standby].worker.read("totals", word)
        assert owners == workers.keys()
        missing = next(
            key for key in (b"none-%d" % n for n in range(99)) if first.worker.locate("totals", key).active[-1] == "1"
        )
        assert first.worker.read("totals", missing) is None
        with pytest.raises(ConfigError, match="declares totals"):
            first.worker.locate("total", b"x")
        for ask in (first.worker.locate, first.worker.read):
            for key in (bytearray(missing), memoryview(missing), ""):
                with pytest.raises(ConfigError, match="must be bytes"):
                    ask("totals", key)
        assert first.worker.read("totals", missing) is None, "the worker goes on"
    finally:
        app.stop()
    with pytest.raises(KeyNotLocal, match="the worker is not running"):
        first.worker.read("totals", b"word-1")
