"""A session with a sidecar, for Python applications: ``SidecarClient`` blocks, ``aio.AsyncSidecarClient`` awaits.

What lives here: the blocking client, and the values that both give. What must not: Kafka, stores, the rest of the
package; importing this takes msgpack and nothing else. Keys and values are bytes; serdes are the application's.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from kstreams_assign.errors import SidecarDisconnected, SidecarRefused
from kstreams_assign.tasks.dead_letters import Failure, failure_of
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, LENGTH_BYTES, LONG_TEXT_MAX, VERSION, Frames, Message, frame

RECEIVE_BYTES = 1 << 18
TCP = "tcp://"
_ENVELOPE_BYTES = 64
"""Of a rejection's frame beside the fields, and of the lengths of its texts, at most."""


class InputRecord(NamedTuple):
    """A record as ``poll`` brings it. ``task`` is whose stores it may be worked on with."""

    task: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] | None


class Columns(NamedTuple):
    """Records of one partition as arrays in step. ``headers`` is None where no record has any."""

    task: str
    topic: str
    partition: int
    offset: Sequence[int]
    timestamp_ms: Sequence[int]
    key: Sequence[bytes | None]
    value: Sequence[bytes | None]
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None


class InputTimer(NamedTuple):
    """A keyed timer that is due, as ``poll_with_timers`` brings it."""

    task: str
    key: bytes
    at_ms: int
    name: str


class Polled(NamedTuple):
    """What ``poll_with_timers`` brings; ``stream_times_ms`` is by task, without those that had no record yet."""

    records: Sequence[InputRecord]
    timers: Sequence[InputTimer]
    stream_times_ms: Mapping[str, int]


def read_polled(answer: Mapping[str, Any]) -> Polled:
    """Return the answer to a poll for records and timers."""
    records = [InputRecord(**record) for record in answer["records"]]
    return Polled(records, [InputTimer(**timer) for timer in answer["timers"]], answer["stream_times_ms"])


class Range(NamedTuple):
    """Entries of a range, and whether there are ``more``."""

    entries: Sequence[tuple[bytes, bytes]]
    more: bool


POLL_GIVEN_UP = (
    "a poll was given up before its answer came, so records may count as polled that you have not seen: "
    "connect again, and bound a poll with timeout_ms"
)
CONNECT_AGAIN = "the session is closed: connect again"
SESSION_CLOSED = "the session was closed by this application: connect again"


class Pending:
    """A request that has been sent; its reply is read when it is asked for."""

    def __init__(self, client: SidecarClient, number: int) -> None:
        self._client = client
        self._number = number
        self._answer: Message | None = None

    def result(self) -> Any:
        """The answer, however often it is asked for. Raises ``SidecarRefused`` and ``SidecarDisconnected``."""
        if self._answer is None:
            self._answer = self._client.wait_for(self._number)
        return read_answer(self._answer)


class SidecarClient:
    """One session; ``with SidecarClient("app.sock") as session: ...``. Used by one thread.

    ``address`` is the socket's path, or ``tcp://HOST:PORT``. Raises ``SidecarDisconnected`` if no sidecar listens and
    ``SidecarRefused`` with ``busy`` where another session is open. Every method raises ``SidecarRefused`` (``code``
    says why) and, once the worker has hung up or did not answer within ``timeout_s``, ``SidecarDisconnected``.
    """

    def __init__(self, address: str, *, token: str | None = None, timeout_s: float = 120.0) -> None:
        self.events: deque[Mapping[str, Any]] = deque()
        """What the worker pushed, oldest first: assigned, restored, revoked, lost. Take them when you like."""
        self._frames = Frames(FRAME_BYTES_MAX)
        self._answers: dict[int, Message] = {}
        self._number = 0
        self._gave_up_poll = False
        self._closed: str | None = None
        """Why the session is over; None while it is open."""
        self._timeout_s = timeout_s
        self._socket = _connected(address, timeout_s)
        try:
            self.welcome: Mapping[str, Any] = self._call("hello", version=VERSION, token=token)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Without ``close``, whatever is not committed is dropped."""
        self._hang_up(SESSION_CLOSED)

    # --- ops --------------------------------------------------------------------------------

    def tasks(self) -> list[dict[str, Any]]:
        """``{task, role, state, lag}`` of every task in the worker."""
        return list(self._call("tasks"))

    def poll(self, max_records: int = 1_000, timeout_ms: int = 1_000) -> list[InputRecord]:
        """The next records; none after ``timeout_ms``."""
        answer = self._poll(max_records=max_records, timeout_ms=timeout_ms)
        return [InputRecord(**record) for record in answer["records"]]

    def poll_columns(self, max_records: int = 10_000, timeout_ms: int = 1_000) -> list[Columns]:
        """The next records as arrays, by partition: much less work for many records."""
        answer = self._poll(max_records=max_records, timeout_ms=timeout_ms, columns=True)
        return [Columns(**partition) for partition in answer["partitions"]]

    def poll_with_timers(self, max_records: int = 1_000, max_timers: int = 1_000, timeout_ms: int = 1_000) -> Polled:
        """The next records, and the keyed timers that are due. ``commit`` deletes the timers that were polled."""
        return read_polled(self._poll(max_records=max_records, max_timers=max_timers, timeout_ms=timeout_ms))

    def set_timers(self, task: str, timers: Mapping[bytes, int], name: str | None = None) -> int:
        """Set the keys' timers of a name, each for a time in milliseconds since 1970, with the next commit."""
        return int(self._call("set_timers", task=task, keys=list(timers), at_ms=list(timers.values()), name=name))

    def cancel_timers(self, task: str, keys: Sequence[bytes], name: str | None = None) -> int:
        """Delete the keys' timers of a name with the next commit; return how many were set."""
        return int(self._call("cancel_timers", task=task, keys=keys, name=name))

    def get_timers(self, task: str, keys: Sequence[bytes], name: str | None = None) -> Sequence[int | None]:
        """For when the keys' timers of a name are set, in the order of the keys."""
        times: Sequence[int | None] = self._call("get_timers", task=task, keys=keys, name=name)
        return times

    def get(self, task: str, store: str, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The newest values, in the order of the keys."""
        values: Sequence[bytes | None] = self._call("get", task=task, store=store, keys=keys)
        return values

    def get_with_timestamps(self, task: str, store: str, keys: Sequence[bytes]) -> Sequence[tuple[bytes, int] | None]:
        """As ``get``, of a timestamped store: value and ``timestamp_ms``."""
        values: Sequence[tuple[bytes, int] | None] = self._call(
            "get", task=task, store=store, keys=keys, timestamps=True
        )
        return values

    def put(
        self, task: str, store: str, entries: Mapping[bytes, bytes], timestamps_ms: Sequence[int] | None = None
    ) -> int:
        """Write; it reaches the store, the changelog and the standbys with the next commit.

        ``timestamps_ms``, one for each, are the times of the writes; else it is that of the task's record polled last.
        """
        fields = {"keys": list(entries), "values": list(entries.values()), "timestamps_ms": timestamps_ms}
        return int(self._call("put", task=task, store=store, **fields))

    def delete(self, task: str, store: str, keys: Sequence[bytes]) -> int:
        """Delete keys with the next commit, and return their number."""
        return int(self._call("delete", task=task, store=store, keys=keys))

    def range(
        self,
        task: str,
        store: str,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        limit: int = 1_000,
        reverse: bool = False,
    ) -> Range:
        """Entries with ``start <= key < end`` in byte order, or the opposite."""
        fields = {"task": task, "store": store, "from": start, "to": end, "limit": limit, "reverse": reverse}
        return Range(**self._call("range", **fields))

    def prefix_scan(
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
        """Entries whose keys begin with ``prefix``, those with ``start <= key < end`` of them, as ``range`` does."""
        fields = {"prefix": prefix, "from": start, "to": end, "limit": limit, "reverse": reverse}
        return Range(**self._call("range", task=task, store=store, **fields))

    def approximate_count(self, task: str, store: str) -> int:
        """An estimate of the number of entries, never negative."""
        return int(self._call("approximate_count", task=task, store=store))

    def emit(self, task: str, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> int:
        """Send records with the next commit; Java's partitioner chooses by key."""
        return int(self._call("emit", task=task, topic=topic, keys=keys, values=values))

    def emit_records(self, task: str, records: Iterable[Mapping[str, Any]]) -> int:
        """Records of any sink: ``{topic, key, value, headers?, partition?, timestamp_ms?}``."""
        return int(self._call("emit", task=task, records=list(records)))

    def reject(self, record: InputRecord, error: BaseException | str, *, undo: bool = False) -> str:
        """Set a polled record aside that cannot be processed; return ``skip`` or ``dead_letter``.

        ``on_error`` of the subtopology in the worker's file says which; the record, with the error in its headers, then
        goes to the dead-letter topic with the next commit. What was written and emitted stays. ``undo`` drops it as far
        as it is of this task and later than its last poll or commit, also for other records: process them again.
        """
        return str(self._call("reject", **rejection(record, error, undo=undo))["response"])

    def commit(self, offsets: Mapping[str, int] | None = None, *, timers: bool | None = None) -> int | None:
        """Everything written and emitted, and the offsets of what was polled, or those given (``orders-3``: next).

        ``timers``: whether the timers that were polled are done; by default they are where ``offsets`` is left out.
        The generation under which it was done. During a rebalance this waits for its end.
        """
        generation: int | None = self.commit_later(offsets, timers=timers).result()
        return generation

    def commit_later(self, offsets: Mapping[str, int] | None = None, *, timers: bool | None = None) -> Pending:
        """As ``commit``, without waiting: go on with the next records meanwhile, and ask for the result later."""
        if offsets is None or timers:
            self._end_behind_given_up_poll()
        return self._send("commit", {"offsets": offsets, "timers": timers})

    def locate(self, store: str, key: bytes) -> Mapping[str, Any]:
        """``{active, standbys}``: endpoints of the processes that have the key."""
        location: Mapping[str, Any] = self._call("locate", store=store, key=key)
        return location

    def query(
        self,
        store: str,
        key: bytes,
        *,
        max_lag: int | None = None,
        partition: int | None = None,
        timeout_ms: int = 5_000,
    ) -> Mapping[str, Any]:
        """The committed value of a key from the process that has it: ``{value, role, lag, endpoint, timestamp_ms}``.

        With ``max_lag``, in offsets of the store's changelog, a replica may answer. ``SidecarRefused`` with
        ``store_not_available`` says when to ask again.
        """
        fields = {"max_lag": max_lag, "partition": partition, "timeout_ms": timeout_ms}
        result: Mapping[str, Any] = self._call("query", store=store, key=key, **fields)
        return result

    def lag(self) -> Mapping[str, int]:
        """Changelog offsets that each task still has to read."""
        lags: Mapping[str, int] = self._call("lag")
        return lags

    def drain(self) -> None:
        """Let the worker leave without silence. Go on until it hangs up (``SidecarDisconnected``)."""
        self._call("drain")

    def restart(self) -> None:
        """Let the worker end for a restart, so that its tasks wait for it. Go on until it hangs up."""
        self._call("restart")

    def pause(self, task: str | None = None, *, subtopology: int | None = None) -> list[str]:
        """Pause one task, a subtopology, or with neither all tasks, of those that are active in the worker.

        Return them once that is committed. Their input comes no more until ``resume``, also after a restart and on
        another Python member; what was polled may still be committed.
        """
        return list(self._call("pause", task=task, subtopology=subtopology))

    def resume(self, task: str | None = None, *, subtopology: int | None = None) -> list[str]:
        """End the pause of one task, a subtopology, or with neither all tasks; return them once that is committed."""
        return list(self._call("resume", task=task, subtopology=subtopology))

    def paused(self) -> Mapping[str, int]:
        """The paused tasks of the worker, and since when, in milliseconds since 1970."""
        since_ms: Mapping[str, int] = self._call("paused")
        return since_ms

    def close(self) -> None:
        """End the session in order. What is not committed is dropped."""
        try:
            self._call("close")
        finally:
            self._hang_up(SESSION_CLOSED)

    # --- the wire ------------------------------------------------------------------------------

    def wait_for(self, number: int) -> Message:
        """The message that answers a request, by its id; it is given once."""
        while number not in self._answers:
            self._receive()
        return self._answers.pop(number)

    def _poll(self, **fields: Any) -> Any:
        self._end_behind_given_up_poll()
        try:
            return self._call("poll", **fields)
        except (SidecarRefused, SidecarDisconnected):
            raise
        except BaseException:  # Ctrl-C
            self._gave_up_poll = True
            raise

    def _end_behind_given_up_poll(self) -> None:
        """Hang up if a poll was given up: the worker may have counted records as polled that no one has seen."""
        if self._gave_up_poll:
            raise self._hang_up(POLL_GIVEN_UP)

    def _hang_up(self, reason: str) -> SidecarDisconnected:
        """Close the connection, and return the error that every later method raises; the first reason stays.

        The worker may answer a lost poll later and count its records as polled, so no commit may follow.
        """
        self._socket.close()
        self._closed = self._closed or reason
        return SidecarDisconnected(self._closed)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise SidecarDisconnected(self._closed)

    def _call(self, op: str, **fields: Any) -> Any:
        return self._send(op, fields).result()

    def _send(self, op: str, fields: Mapping[str, Any]) -> Pending:
        self._check_open()
        self._number += 1
        packed = request_frame(self._number, op, fields)
        try:
            self._socket.sendall(packed)
        except OSError as cause:
            self._read_rest()
            lost = self._hang_up(f"{op}: the connection to the worker is lost: {cause}; {CONNECT_AGAIN}")
            self._take_all()
            raise lost from cause
        return Pending(self, self._number)

    def _receive(self) -> None:
        self._check_open()
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError as cause:
            text = f"no answer from the worker within timeout_s = {self._timeout_s:g} seconds; {CONNECT_AGAIN}"
            raise self._hang_up(text) from cause
        except OSError as cause:
            raise self._hang_up(f"no answer from the worker: {cause}; {CONNECT_AGAIN}") from cause
        if not data:
            raise self._hang_up("the worker has hung up")
        self._frames.feed(data)
        self._take_all()

    def _take_all(self) -> None:
        """Take every complete message. Raises the worker's reason for hanging up, if that is one of them."""
        while (message := self._frames.next()) is not None:
            self._take(message)

    def _take(self, message: Message) -> None:
        if "event" in message:
            self.events.append(message)
        elif message["id"] is None:
            read_answer(message)
        else:
            self._answers[message["id"]] = message

    def _read_rest(self) -> None:
        """Read what the worker sent before it hung up."""
        self._socket.settimeout(0)
        try:
            while data := self._socket.recv(RECEIVE_BYTES):
                self._frames.feed(data)
        except OSError:
            pass


def request_frame(number: int, op: str, fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request. Raises ``SidecarRefused`` for one that is too large, ``MalformedFrame``."""
    packed = frame({"id": number, "op": op, **fields})
    if len(packed) - LENGTH_BYTES > FRAME_BYTES_MAX:
        text = f"{op}: a request of {len(packed):,} bytes was not sent; a frame takes at most {FRAME_BYTES_MAX:,}"
        raise SidecarRefused("too_large", text)
    return packed


def rejection(record: InputRecord, error: BaseException | str, *, undo: bool) -> dict[str, Any]:
    """The fields of a ``reject``. The texts are as long as the record leaves room for them in a frame."""
    failure = Failure(error, error, error) if isinstance(error, str) else failure_of(error)
    texts = {name: None if text is None else _encoded(text) for name, text in failure._asdict().items()}
    fields = record._asdict()
    task = fields.pop("task")
    rejected = {"task": task, "record": fields, "undo": undo} | dict.fromkeys(texts)
    room = max(0, FRAME_BYTES_MAX - _ENVELOPE_BYTES - len(frame(rejected))) // len(texts)
    return rejected | {name: None if text is None else _cut(text, room, name) for name, text in texts.items()}


def _encoded(text: str) -> bytes:
    """A text as UTF-8; half of a surrogate pair, which UTF-8 does not have, is written as in Python."""
    return text.encode(errors="backslashreplace")


def _cut(text: bytes, bytes_max: int, name: str) -> str:
    """The end of a stack trace, the begin of any other text."""
    if name == "stacktrace":
        return text[max(0, len(text) - bytes_max) :].decode(errors="ignore")[-LONG_TEXT_MAX:]
    return text[:bytes_max].decode(errors="ignore")[:LONG_TEXT_MAX]


_ENDS = {"closing", "timed_out"}


def read_answer(message: Message) -> Any:
    """What a reply says. Raises ``SidecarRefused``, and ``SidecarDisconnected`` where the worker or session ends."""
    error = message.get("error")
    if error is not None and error["code"] in _ENDS:
        raise SidecarDisconnected(error["message"])
    if error is not None:
        raise SidecarRefused(error["code"], error["message"])
    return message["ok"]


def tcp_address(address: str) -> tuple[str, int] | None:
    """Host and port of ``tcp://HOST:PORT``; None for a path."""
    if not address.startswith(TCP):
        return None
    host, _, port = address.removeprefix(TCP).rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _connected(address: str, timeout_s: float) -> socket.socket:
    tcp = tcp_address(address)
    try:
        if tcp is not None:
            return socket.create_connection(tcp, timeout_s)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(timeout_s)
            made.connect(address)
        except OSError:
            made.close()
            raise
    except OSError as cause:
        raise SidecarDisconnected(f"{address}: no worker listens there: {cause}") from cause
    return made
