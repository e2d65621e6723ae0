"""A session with a sidecar for asyncio: the ops of ``client.SidecarClient``, awaited, and several at a time.

What must not live here: Kafka, stores, the rest of the package.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kstreams_assign.errors import MalformedFrame, SidecarDisconnected, SidecarRefused
from kstreams_assign.sidecar.client import (
    POLL_GIVEN_UP,
    RECEIVE_BYTES,
    Columns,
    InputRecord,
    Polled,
    Range,
    read_answer,
    read_polled,
    rejection,
    request_frame,
    tcp_address,
)
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, VERSION, Frames, Message

CANCEL_TURNS = 3
"""Turns of the loop until a cancelled poll has ended; ``asyncio.wait_for`` of Python 3.11 takes two."""


class AsyncSidecarClient:
    """One session: ``async with await AsyncSidecarClient.connect("app.sock") as session: ...``.

    Every method raises ``SidecarRefused`` (``code`` says why) and, once the worker has hung up,
    ``SidecarDisconnected``. Requests may be awaited together; the worker answers a ``commit`` when it is done and
    others meanwhile.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.events: deque[Mapping[str, Any]] = deque()
        """What the worker pushed, oldest first: assigned, restored, revoked, lost. Take them when you like."""
        self.welcome: Mapping[str, Any] = {}
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._gone: SidecarDisconnected | SidecarRefused | None = None
        self._gave_up_poll = False
        self._polls = 0
        """Polls that have not returned yet."""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, address: str, *, token: str | None = None) -> Self:
        """``address`` is the socket's path, or ``tcp://HOST:PORT``.

        Raises ``SidecarDisconnected`` if no sidecar listens, ``SidecarRefused`` with ``busy`` where another session is
        open.
        """
        tcp = tcp_address(address)
        try:
            streams = await (asyncio.open_connection(*tcp) if tcp else asyncio.open_unix_connection(address))
        except OSError as cause:
            raise SidecarDisconnected(f"{address}: no worker listens there: {cause}") from cause
        session = cls(*streams)
        try:
            session.welcome = await session._call("hello", version=VERSION, token=token)
        except BaseException:  # also a cancel: only one session is let in, and this one would stay
            await session._hang_up()
            raise
        return session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Without ``close``, whatever is not committed is dropped."""
        await self._hang_up()

    # --- ops: see SidecarClient ---------------------------------------------------------------

    async def tasks(self) -> list[dict[str, Any]]:
        return list(await self._call("tasks"))

    async def poll(self, max_records: int = 1_000, timeout_ms: int = 1_000) -> list[InputRecord]:
        answer = await self._poll(max_records=max_records, timeout_ms=timeout_ms)
        return [InputRecord(**record) for record in answer["records"]]

    async def poll_columns(self, max_records: int = 10_000, timeout_ms: int = 1_000) -> list[Columns]:
        answer = await self._poll(max_records=max_records, timeout_ms=timeout_ms, columns=True)
        return [Columns(**partition) for partition in answer["partitions"]]

    async def poll_with_timers(
        self, max_records: int = 1_000, max_timers: int = 1_000, timeout_ms: int = 1_000
    ) -> Polled:
        return read_polled(await self._poll(max_records=max_records, max_timers=max_timers, timeout_ms=timeout_ms))

    async def set_timers(self, task: str, timers: Mapping[bytes, int], name: str | None = None) -> int:
        fields = {"keys": list(timers), "at_ms": list(timers.values()), "name": name}
        return int(await self._call("set_timers", task=task, **fields))

    async def cancel_timers(self, task: str, keys: Sequence[bytes], name: str | None = None) -> int:
        return int(await self._call("cancel_timers", task=task, keys=keys, name=name))

    async def get_timers(self, task: str, keys: Sequence[bytes], name: str | None = None) -> Sequence[int | None]:
        times: Sequence[int | None] = await self._call("get_timers", task=task, keys=keys, name=name)
        return times

    async def get(self, task: str, store: str, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        values: Sequence[bytes | None] = await self._call("get", task=task, store=store, keys=keys)
        return values

    async def get_with_timestamps(
        self, task: str, store: str, keys: Sequence[bytes]
    ) -> Sequence[tuple[bytes, int] | None]:
        values: Sequence[tuple[bytes, int] | None]
        values = await self._call("get", task=task, store=store, keys=keys, timestamps=True)
        return values

    async def put(
        self, task: str, store: str, entries: Mapping[bytes, bytes], timestamps_ms: Sequence[int] | None = None
    ) -> int:
        fields = {"keys": list(entries), "values": list(entries.values()), "timestamps_ms": timestamps_ms}
        return int(await self._call("put", task=task, store=store, **fields))

    async def delete(self, task: str, store: str, keys: Sequence[bytes]) -> int:
        return int(await self._call("delete", task=task, store=store, keys=keys))

    async def range(
        self,
        task: str,
        store: str,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        limit: int = 1_000,
        reverse: bool = False,
    ) -> Range:
        fields = {"task": task, "store": store, "from": start, "to": end, "limit": limit, "reverse": reverse}
        return Range(**await self._call("range", **fields))

    async def prefix_scan(
        self,
        task: str,
        store: str,
        prefix: bytes,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        limit: int = 1_000,
        reverse: bool = False,
    ) -> Range:
        fields = {"prefix": prefix, "from": start, "to": end, "limit": limit, "reverse": reverse}
        return Range(**await self._call("range", task=task, store=store, **fields))

    async def approximate_count(self, task: str, store: str) -> int:
        return int(await self._call("approximate_count", task=task, store=store))

    async def emit(self, task: str, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> int:
        return int(await self._call("emit", task=task, topic=topic, keys=keys, values=values))

    async def emit_records(self, task: str, records: Iterable[Mapping[str, Any]]) -> int:
        return int(await self._call("emit", task=task, records=list(records)))

    async def reject(self, record: InputRecord, error: BaseException | str, *, undo: bool = False) -> str:
        return str((await self._call("reject", **rejection(record, error, undo=undo)))["response"])

    async def commit(self, offsets: Mapping[str, int] | None = None, *, timers: bool | None = None) -> int | None:
        if offsets is None or timers:
            await self._let_cancelled_polls_end()
            await self._end_behind_given_up_poll()
        generation: int | None = await self._call("commit", offsets=offsets, timers=timers)
        return generation

    async def locate(self, store: str, key: bytes) -> Mapping[str, Any]:
        location: Mapping[str, Any] = await self._call("locate", store=store, key=key)
        return location

    async def query(
        self,
        store: str,
        key: bytes,
        *,
        max_lag: int | None = None,
        partition: int | None = None,
        timeout_ms: int = 5_000,
    ) -> Mapping[str, Any]:
        fields = {"max_lag": max_lag, "partition": partition, "timeout_ms": timeout_ms}
        result: Mapping[str, Any] = await self._call("query", store=store, key=key, **fields)
        return result

    async def lag(self) -> Mapping[str, int]:
        lags: Mapping[str, int] = await self._call("lag")
        return lags

    async def drain(self) -> None:
        await self._call("drain")

    async def restart(self) -> None:
        await self._call("restart")

    async def pause(self, task: str | None = None, *, subtopology: int | None = None) -> list[str]:
        return list(await self._call("pause", task=task, subtopology=subtopology))

    async def resume(self, task: str | None = None, *, subtopology: int | None = None) -> list[str]:
        return list(await self._call("resume", task=task, subtopology=subtopology))

    async def paused(self) -> Mapping[str, int]:
        since_ms: Mapping[str, int] = await self._call("paused")
        return since_ms

    async def close(self) -> None:
        """End the session in order. What is not committed is dropped."""
        try:
            await self._call("close")
        finally:
            await self._hang_up()

    # --- polls that were given up -------------------------------------------------------------

    async def _poll(self, **fields: Any) -> Any:
        await self._end_behind_given_up_poll()
        self._polls += 1
        try:
            return await self._call("poll", **fields)
        except asyncio.CancelledError:
            self._gave_up_poll = True
            raise
        finally:
            self._polls -= 1

    async def _let_cancelled_polls_end(self) -> None:
        """Give the task of a poll that was just cancelled the turns in which it learns of it."""
        for _ in range(CANCEL_TURNS):
            if self._polls:
                await asyncio.sleep(0)

    async def _end_behind_given_up_poll(self) -> None:
        """Hang up if a poll was cancelled: the worker may have counted records as polled that no one has seen."""
        if self._gave_up_poll and self._gone is None:
            self._gone = SidecarDisconnected(POLL_GIVEN_UP)
            await self._hang_up()

    # --- the wire ---------------------------------------------------------------------------------

    async def _call(self, op: str, **fields: Any) -> Any:
        if self._gone is not None:
            raise self._gone
        self._number += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        packed = request_frame(self._number, op, fields)
        self._waiting[self._number] = answer
        self._writer.write(packed)
        return await answer

    async def _listen(self) -> None:
        """Take answers and events until the worker hangs up; then fail the calls that still wait."""
        frames = Frames(FRAME_BYTES_MAX)
        try:
            while data := await self._reader.read(RECEIVE_BYTES):
                frames.feed(data)
                while (message := frames.next()) is not None:
                    self._take(message)
        except (OSError, MalformedFrame) as cause:
            self._gone = self._gone or SidecarDisconnected(f"the connection broke: {cause}")
        finally:
            self._give_up()

    def _take(self, message: Message) -> None:
        if "event" in message:
            self.events.append(message)
            return
        answer = self._waiting.pop(message["id"], None)
        try:
            ok = read_answer(message)
        except (SidecarRefused, SidecarDisconnected) as refused:
            if answer is None:
                self._gone = refused  # the last word before the worker hangs up
            elif not answer.done():
                answer.set_exception(refused)
            return
        if answer is not None and not answer.done():
            answer.set_result(ok)

    def _give_up(self) -> None:
        self._gone = self._gone or SidecarDisconnected("the worker has hung up")
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._gone)
        self._waiting.clear()

    async def _hang_up(self) -> None:
        self._writer.close()
        self._listening.cancel()
        await asyncio.wait([self._listening])
