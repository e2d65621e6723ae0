"""The asyncio client at a sidecar on a real broker: concurrent requests, and the end of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.errors import SidecarDisconnected, SidecarRefused
from kstreams_assign.sidecar.aio import AsyncSidecarClient
from tests.sidecar.shop import PARTITIONS, STORE, Shop


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, request.node.name.replace("_", "-")[:70], tmp_path)
    yield running_shop
    running_shop.stop()


async def count(session: AsyncSidecarClient, shop: Shop) -> None:
    """Count each order by itself, with a commit on its way behind the next poll."""
    commits: set[asyncio.Task[int | None]] = set()
    left = sum(shop.sent.values())
    while left:
        for record in await session.poll(50, 500):
            key = record.key or b""
            (total,) = await session.get(record.task, STORE, [key])
            new = b"%d" % (int(total or 0) + 1)
            await asyncio.gather(
                session.put(record.task, STORE, {key: new}), session.emit(record.task, shop.output, [key], [new])
            )
            left -= 1
        commits.add(asyncio.ensure_future(session.commit()))
    assert len(set(await asyncio.gather(*commits))) == 1, "one generation"


def test_an_asyncio_application_counts_while_commits_are_under_way(shop):
    async def application() -> None:
        async with await AsyncSidecarClient.connect(str(shop.folder / "1.sock")) as session:
            await count(session, shop)
            assert [task["state"] for task in await session.tasks()] == ["running"] * PARTITIONS
            (first,) = (await session.range("0_0", STORE, limit=1)).entries
            assert (await session.prefix_scan("0_0", STORE, b"customer-", limit=1)).entries == (first,)
            assert await session.approximate_count("0_0", STORE) >= 1
            assert (await session.locate(STORE, b"ann"))["active"] == "localhost:7000"
            with pytest.raises(SidecarRefused, match="busy"):
                await AsyncSidecarClient.connect(str(shop.folder / "1.sock"))
            await session.close()
            with pytest.raises(SidecarDisconnected):
                await session.tasks()

    shop.send([b"customer-%d" % (n % 7) for n in range(300)])
    shop.start(application_server="localhost:7000").until_running(PARTITIONS)
    asyncio.run(application())
    assert shop.committed() == shop.emitted() == shop.sent


def test_concurrent_requests_are_all_answered_and_a_waiting_poll_delays_none(shop):
    async def application() -> None:
        async with await AsyncSidecarClient.connect(str(shop.folder / "1.sock")) as session:
            waiting = asyncio.ensure_future(session.poll(1, 60_000))
            lags = await asyncio.gather(*(session.lag() for _ in range(200)))
            assert len(lags) == 200
            assert not waiting.done()
            shop.send([b"ann"])
            assert [record.key for record in await waiting] == [b"ann"]

    shop.start().until_running(PARTITIONS)
    asyncio.run(application())


def test_without_a_listener_connecting_fails():
    with pytest.raises(SidecarDisconnected, match="no worker listens there"):
        asyncio.run(AsyncSidecarClient.connect("nowhere.sock"))
