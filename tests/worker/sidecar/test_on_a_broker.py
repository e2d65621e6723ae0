"""Applications at a sidecar's socket, on a real broker: whatever they do, nothing is lost and nothing counts twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.sidecar.shop import PARTITIONS, Shop, add_up_until

ORDERS = [b"customer-%d" % (n % 53) for n in range(2_000)]


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    found = Shop(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield found
    found.stop()


def test_an_application_counts_everything_and_emits_the_totals(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start()
    with shop.connect() as session:
        assert session.welcome["application_id"] == shop.name
        add_up_until(session, shop)
        assert shop.emitted() == shop.sent
        tasks = session.tasks()
        assert [(t["task"], t["role"], t["state"]) for t in tasks] == [
            (f"0_{p}", "active", "running") for p in range(PARTITIONS)
        ]
        assert session.events[0]["event"] == "assigned"
        session.close()
