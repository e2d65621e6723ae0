"""Keyed timers at a sidecar on a real broker, with both clients: what a lost session polled comes again."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign import InputTimer
from kstreams_assign.sidecar.aio import AsyncSidecarClient
from tests.sidecar.shop import PARTITIONS, STORE, WITHIN_S, Shop

KEYS = [b"customer-%d" % number for number in range(200)]
SOON_MS = 300


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield running_shop
    running_shop.stop()


def now_ms() -> int:
    return round(time.time() * 1000)


def test_each_timer_has_one_effect_though_a_session_is_lost(shop: Shop) -> None:
    topology = {"sources": [shop.name], "stores": [STORE], "sinks": [shop.output], "timers": "wall"}
    shop.send(KEYS)
    shop.start(processing_guarantee="exactly_once_v2", topology={"subtopology": [topology]}).until_running(PARTITIONS)
    deadline = time.monotonic() + WITHIN_S
    with shop.connect() as session:
        read = 0
        while read < len(KEYS):
            for record in session.poll_with_timers().records:
                assert session.set_timers(record.task, {record.key or b"": now_ms() + SOON_MS}) == 1
                read += 1
        session.commit()
        assert session.get_timers("0_0", [b"nobody"]) == (None,)
        lost: list[InputTimer] = []
        while len(lost) < len(KEYS) and time.monotonic() < deadline:
            polled = session.poll_with_timers(timeout_ms=500)
            assert polled.stream_times_ms.keys() == {f"0_{number}" for number in range(PARTITIONS)}
            lost += polled.timers
        for timer in lost:
            session.put(timer.task, STORE, {timer.key: b"of a session that is lost"})

    async def work() -> list[InputTimer]:
        done: list[InputTimer] = []
        async with await AsyncSidecarClient.connect(str(shop.folder / "1.sock")) as session:
            while len(done) < len(KEYS) and time.monotonic() < deadline:
                timers = (await session.poll_with_timers(timeout_ms=500)).timers
                for timer in timers:
                    await session.put(timer.task, STORE, {timer.key: b"1"})
                done += timers
                await session.commit()
            assert (await session.poll_with_timers(timeout_ms=0)).timers == []
            assert await session.get_timers(done[0].task, [done[0].key]) == (None,)
            await session.set_timers(done[0].task, {b"later": now_ms() + 3_600_000}, "n")
            assert await session.cancel_timers(done[0].task, [b"later"], "n") == 1
            await session.close()
        return done

    done = asyncio.run(work())
    assert Counter(timer.key for timer in done) == Counter(KEYS) == Counter(timer.key for timer in lost)
    assert shop.committed() == dict.fromkeys(KEYS, 1)
