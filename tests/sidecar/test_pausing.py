"""An application at the socket pauses tasks: what it has polled it may commit, and nothing comes twice or is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign import SidecarRefused
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.sidecar.aio import AsyncSidecarClient
from tests.sidecar.shop import PARTITIONS, Shop, add_up, add_up_until

ORDERS = [b"customer-%d" % (n % 53) for n in range(2_000)]
ALL = [f"0_{number}" for number in range(PARTITIONS)]


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield running_shop
    running_shop.stop()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_polled_records_are_committed_and_the_rest_comes_after_the_pause(shop: Shop, guarantee: str) -> None:
    shop.send(ORDERS)
    shop.start(processing_guarantee=guarantee)
    with shop.connect() as session:
        while not add_up(session, 100):
            pass
        session.pause()
        session.resume()  # goes on behind what is polled and not committed
        while not add_up(session, 100):
            pass
        assert session.pause() == ALL
        assert session.pause("0_0") == ["0_0"]
        assert [*session.paused()] == ALL
        session.commit()
        before = shop.committed()
        assert before.total() > 0
        assert session.poll(timeout_ms=1_000) == []
        assert session.resume(subtopology=0) == ALL
        assert session.paused() == {}
        add_up_until(session, shop)
        assert shop.emitted() == shop.sent
        session.close()


def test_what_a_session_has_not_committed_comes_again_after_the_pause(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start()
    with shop.connect() as session:
        while not add_up(session, 100):
            pass
        session.pause()
        session.close()
    assert shop.committed().total() == 0
    with shop.connect() as session:
        assert session.poll(timeout_ms=500) == []
        session.resume()
        add_up_until(session, shop)
        assert shop.emitted() == shop.sent
        session.close()


def test_the_asyncio_client_pauses_too_and_a_wrong_request_is_refused(shop: Shop) -> None:
    running = shop.start()
    running.until_running(PARTITIONS)

    async def ask() -> None:
        async with await AsyncSidecarClient.connect(shop.settings()["socket"]) as session:
            assert await session.pause("0_1") == ["0_1"]
            assert [*await session.paused()] == ["0_1"]
            assert await session.resume() == ALL
            with pytest.raises(SidecarRefused, match="task_migrated: task 0_9 does not run in this process"):
                await session.pause("0_9")
            with pytest.raises(SidecarRefused, match="bad_request: subtopology = 4: must be from 0 to 0"):
                await session.resume(subtopology=4)
            with pytest.raises(SidecarRefused, match="bad_request: either task or subtopology"):
                await session.pause("0_1", subtopology=0)

    asyncio.run(ask())
