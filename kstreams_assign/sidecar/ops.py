"""What the ops on a task do: read its stores, write into its buffer. Each is one function of a checked request.

What must not live here: waiting, sockets, when to commit. Used on the processing loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from operator import add
from typing import Any

from kstreams_assign.errors import ConfigError
from kstreams_assign.sidecar.messages import Request, refused
from kstreams_assign.sidecar.outputs import SessionOutputs
from kstreams_assign.sidecar.poll import POLLED_BYTES_MAX, TIMER_KEY_BYTES_MAX
from kstreams_assign.sidecar.session_tasks import SessionTask, SessionTasks
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.tasks.prefixes import prefix_end
from kstreams_assign.tasks.stamped import ValueAndTime
from kstreams_assign.wire.framing import FRAME_BYTES_MAX
from kstreams_assign.worker.global_views import ReadOnlyKeyValueStore, ReadOnlyTimestampedKeyValueStore
from kstreams_assign.worker.timing import Timers
from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore

ANSWER_BYTES_MAX = FRAME_BYTES_MAX - (1 << 20)
VALUE_BYTES = 9  # what msgpack puts around a value, at most
LOOK_UP_KEYS = 256  # read at once: an answer that would be too large is not read to its end

LARGE_REPLIES = frozenset({"get", "get_timers", "range"})
"""Ops whose answers may be as large as a frame: they wait while the session's port is full.

So does ``poll``, which other requests overtake. A ``query`` does not wait: its answer has one value.
"""

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a session may ask for. ``partition_counts`` are of the topology's topics.

    ``written_bytes_max`` may be uncommitted; the records of an answer to ``poll`` have at most ``polled_bytes_max``,
    unless there is only one.
    """

    records_max: int
    record_bytes_max: int = 1_000_000
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    written_bytes_max: int = 64 << 20
    polled_bytes_max: int = POLLED_BYTES_MAX


class Ops:
    """``do`` carries out a request. Raises ``SidecarRefused``; then nothing of it was done."""

    def __init__(self, session_tasks: SessionTasks, limits: Limits, outputs: SessionOutputs) -> None:
        self._session_tasks = session_tasks
        self._outputs = outputs
        self._limits = limits
        self._written_bytes = 0
        self._table: Mapping[str, Callable[[Fields], Any]] = {
            "get": self._get,
            "put": self._put,
            "delete": self._delete,
            "range": self._range,
            "approximate_count": self._approximate_count,
            "emit": self._emit,
            "set_timers": self._set_timers,
            "cancel_timers": self._cancel_timers,
            "get_timers": self._get_timers,
        }

    def do(self, request: Request) -> Any:
        return self._table[request.op](request.fields)

    def forget_sizes(self) -> None:
        """What was written is committed or dropped."""
        self._written_bytes = 0

    def _get(self, fields: Fields) -> list[Any]:
        store = _readable(self._session_tasks.to_read(fields["task"]), fields["store"])
        get_many = _timestamped(store).get_many_with_timestamps if fields["timestamps"] else store.get_many
        answer: list[Any] = []
        size = 0
        keys: Sequence[bytes] = fields["keys"]
        for start in range(0, len(keys), LOOK_UP_KEYS):
            values = get_many(keys[start : start + LOOK_UP_KEYS])
            size += sum(map(_answer_size, values))
            if size > ANSWER_BYTES_MAX:
                raise refused("too_large", f"the values of {len(keys)} keys do not fit into an answer; ask for fewer")
            answer += values
        return answer

    def _put(self, fields: Fields) -> int:
        keys, values = _paired(fields, "entries")
        return self._write(fields, keys, values, list(map(add, map(len, keys), map(len, values))))

    def _delete(self, fields: Fields) -> int:
        keys = fields["keys"]
        return self._write(fields, keys, [None] * len(keys), list(map(len, keys)))

    def _write(
        self, fields: Fields, keys: Sequence[bytes], values: Sequence[bytes | None], sizes: Sequence[int]
    ) -> int:
        store = _store(self._session_tasks.to_write(fields["task"]), fields["store"])
        times = fields["timestamps_ms"]
        if times is not None and len(times) != len(keys):
            raise refused("bad_request", f"timestamps_ms: {len(times)} of them for {len(keys)} keys")
        self._outputs.check_writes(fields["task"], fields["store"], sizes)
        self._weigh(sizes)
        store.put_many(zip(keys, values, strict=True), times)
        return len(keys)

    def _range(self, fields: Fields) -> dict[str, Any]:
        store = _readable(self._session_tasks.to_read(fields["task"]), fields["store"])
        entries: list[tuple[bytes, Any]] = []
        size = 0
        more = False
        in_range = _timestamped(store).range_with_timestamps if fields["timestamps"] else store.range
        start, end = _ends(fields)
        for key, value in islice(in_range(start, end, reverse=fields["reverse"]), fields["limit"] + 1):
            size += len(key) + VALUE_BYTES + _answer_size(value)
            if len(entries) == fields["limit"] or size > ANSWER_BYTES_MAX:
                more = True
                break
            entries.append((key, value))
        return {"entries": entries, "more": more}

    def _approximate_count(self, fields: Fields) -> int:
        return _readable(self._session_tasks.to_read(fields["task"]), fields["store"]).approximate_count()

    def _emit(self, fields: Fields) -> int:
        session_task = self._session_tasks.to_write(fields["task"])
        emitted = _emitted(fields, session_task.running.workspace.at_work.record.timestamp_ms)
        self._check_sinks(session_task, emitted)
        kept, refused_outputs = self._outputs.split(session_task, emitted, list(map(_output_size, emitted)))
        self._weigh(list(map(_output_size, kept)))
        for refused_output in refused_outputs:
            self._outputs.set_aside(session_task, refused_output)
        session_task.running.workspace.emit_many(kept)
        return len(kept)

    def _set_timers(self, fields: Fields) -> int:
        keys, times, name = fields["keys"], fields["at_ms"], fields["name"] or ""
        if len(times) != len(keys):
            raise refused("bad_request", f"at_ms: {len(times)} of them for {len(keys)} keys")
        if (longest := max(map(len, keys), default=0)) > TIMER_KEY_BYTES_MAX:
            raise refused("too_large", f"a timer's key of {longest} bytes: must be at most {TIMER_KEY_BYTES_MAX}")
        timers = _timers(self._session_tasks.to_write(fields["task"]))
        self._weigh([2 * (len(key) + len(name) * 4 + VALUE_BYTES) for key in keys])
        for key, at_ms in zip(keys, times, strict=True):
            timers.set(key, at_ms, name)
        return len(keys)

    def _cancel_timers(self, fields: Fields) -> int:
        keys, name = fields["keys"], fields["name"] or ""
        timers = _timers(self._session_tasks.to_write(fields["task"]))
        self._weigh([2 * (len(key) + len(name) * 4) for key in keys])
        return sum([timers.cancel(key, name) for key in keys])

    def _get_timers(self, fields: Fields) -> list[int | None]:
        name = fields["name"] or ""
        timers = _timers(self._session_tasks.to_read(fields["task"]))
        return [timers.get(key, name) for key in fields["keys"]]

    def _check_sinks(self, session_task: SessionTask, emitted: Iterable[Emitted]) -> None:
        for topic, partition in {(record.topic, record.partition) for record in emitted}:
            if topic not in session_task.running.workspace.sinks:
                allowed = ", ".join(sorted(session_task.running.workspace.sinks)) or "none"
                raise refused("no_such_topic", f"topic {topic!r}: the sinks of the task are {allowed}")
            count = self._limits.partition_counts.get(topic)
            if partition is not None and count is not None and partition >= count:
                raise refused("no_such_topic", f"topic {topic!r} has no partition {partition}; it has {count}")

    def _weigh(self, sizes: Sequence[int]) -> None:
        """Refuse what the brokers would refuse at the commit, where it would cost the member its tasks."""
        if max(sizes, default=0) > self._limits.record_bytes_max:
            text = f"a record of {max(sizes)} bytes; a topic takes {self._limits.record_bytes_max}"
            raise refused("too_large", text)
        weight = self._written_bytes + sum(sizes) + len(sizes) * VALUE_BYTES
        most = self._limits.written_bytes_max
        if weight > most:
            raise refused("uncommitted_limit", f"{weight} bytes would be uncommitted, of {most}: commit")
        self._written_bytes = weight


def _size(key: bytes | None, value: bytes | None) -> int:
    return len(key or b"") + len(value or b"")


def _output_size(record: Emitted) -> int:
    return _size(record.key, record.value) + _headers_size(record)


def _headers_size(record: Emitted) -> int:
    return sum(len(name) * 4 + len(value or b"") for name, value in record.headers) if record.headers else 0


def _readable(session_task: SessionTask, name: str) -> KeyValueStore | ReadOnlyKeyValueStore:
    """Return a store of the task, or a global table."""
    return session_task.running.workspace.global_tables.get(name) or _store(session_task, name)


def _store(session_task: SessionTask, name: str) -> KeyValueStore:
    if name in session_task.running.workspace.global_tables:
        raise refused("no_such_store", f"store {name!r}: is a global table, which is read-only; write to its topic")
    try:
        return session_task.running.task.store(name)
    except ConfigError as cause:
        raise refused("no_such_store", str(cause)) from cause


def _timers(session_task: SessionTask) -> Timers:
    try:
        return session_task.running.task.timers
    except ConfigError as cause:
        text = (
            f'subtopology {session_task.running.task.id.subtopology} has no timers; write timers = "wall" in its table'
        )
        raise refused("no_such_store", text) from cause


def _ends(fields: Fields) -> tuple[bytes | None, bytes | None]:
    """Where a range begins and ends: between ``from`` and ``to``, and only keys that begin with ``prefix``."""
    start, end, prefix = fields["from"], fields["to"], fields["prefix"]
    if prefix is None:
        return start, end
    ends = [each for each in (end, prefix_end(prefix)) if each is not None]
    return max(start or b"", prefix), min(ends, default=None)


def _paired(fields: Fields, whole: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """Keys and values of a request that may bring them as pairs (in ``whole``) or as two arrays."""
    pairs, keys, values = fields[whole], fields["keys"], fields["values"]
    if pairs is not None and keys is None and values is None:
        return [key for key, _ in pairs], [value for _, value in pairs]
    if pairs is not None or keys is None or values is None or len(keys) != len(values):
        raise refused("bad_request", f"either {whole}, or keys and values of one length")
    return keys, values


def _answer_size(value: Any) -> int:
    """Of a value, or a value with its timestamp, or none."""
    if type(value) is ValueAndTime:
        return len(value.value) + 2 * VALUE_BYTES
    return len(value or b"") + VALUE_BYTES


def _timestamped(
    store: KeyValueStore | ReadOnlyKeyValueStore,
) -> TimestampedKeyValueStore | ReadOnlyTimestampedKeyValueStore:
    if not isinstance(store, TimestampedKeyValueStore | ReadOnlyTimestampedKeyValueStore):
        raise refused(
            "bad_request", "timestamps: the store keeps none; its type would have to be timestamped_key_value"
        )
    return store


def _emitted(fields: Fields, time_ms: int) -> list[Emitted]:
    """``time_ms`` is for records without a time of their own."""
    records, topic = fields["records"], fields["topic"]
    if records is not None and topic is None and fields["keys"] is None and fields["values"] is None:
        return [_emitted_record(record, time_ms) for record in records]
    if topic is None:
        raise refused("bad_request", "either records, or topic with keys and values of one length")
    keys, values = _paired({**fields, "records": None if records is None else ()}, "records")
    return list(map(Emitted, repeat(topic), keys, values, repeat(()), repeat(None), repeat(time_ms)))


def _emitted_record(record: Fields, time_ms: int) -> Emitted:
    headers = tuple((name, value) for name, value in record.get("headers") or ())
    given_ms = record.get("timestamp_ms")
    at_ms = time_ms if given_ms is None else given_ms
    return Emitted(record["topic"], record["key"], record["value"], headers, record.get("partition"), at_ms)
