"""``Worker.locate``, ``Worker.read`` and ``Worker.query``: reads of keys by the program, from any thread."""

from __future__ import annotations

from kstreams_assign.errors import KeyNotLocal, StoreNotAvailable
from kstreams_assign.query.client import QueryResult, check_key, check_timeout
from kstreams_assign.worker.lookup import Location, Lookup
from kstreams_assign.worker.querying import START_RETRY_MS, Queries


class KeyReads:
    """Reads while the worker runs: from ``_reads_begin`` to ``_reads_end``."""

    _lookup: Lookup | None = None
    _queries: Queries | None = None

    def _reads_begin(self, lookup: Lookup, queries: Queries) -> None:
        self._lookup, self._queries = lookup, queries

    def _reads_end(self) -> None:
        self._lookup = self._queries = None

    def locate(self, store: str, key: bytes) -> Location:
        """Return the processes that have a key: endpoints as ``application_server`` in the last assignment.

        Call it from any thread (Kafka: ``KafkaStreams.queryMetadataForKey``). Raises ``KeyNotLocal`` while the worker
        is not running, ``ConfigError`` for a key that is not bytes or a store that the topology does not declare, and
        ``BrokerError``.
        """
        check_key(key)
        return self._require_lookup().locate(store, key)

    def read(self, store: str, key: bytes, *, allow_standby: bool = False, timeout_s: float = 5.0) -> bytes | None:
        """Return the newest committed value of a key that this process has, or None.

        With ``allow_standby`` a standby or warm-up may answer, with a value that may be behind, if the store has a
        changelog. Call it from any thread. Raises ``KeyNotLocal``, which names the process that has the key, what
        ``locate`` raises, and ``ConfigError`` for a wrong ``timeout_s``.
        """
        check_key(key)
        check_timeout(timeout_s)
        return self._require_lookup().read(store, key, allow_standby=allow_standby, timeout_s=timeout_s)

    def query(
        self,
        store: str,
        key: bytes,
        *,
        max_lag: int | None = None,
        partition: int | None = None,
        timeout_s: float = 5.0,
    ) -> QueryResult:
        """Return the committed value of a key from the process that has it, this one or another.

        ``max_lag``: offsets of the store's changelog that the answer may lack; then a replica may answer, that of this
        process first. Without it, only the active task answers (Kafka: ``StateQueryRequest.requireActive``,
        ``PositionBound``). ``partition`` for a store whose keys are not partitioned as Java's default partitioner does.
        While the task moves, it asks again until ``timeout_s``. Other processes need the setting ``query``. Call it
        from any thread, but not in the function of a subtopology: its thread has the stores. Raises
        ``StoreNotAvailable``, which says when to ask again, ``QueryRefused``, and ``ConfigError`` for a wrong argument.
        """
        queries = self._queries
        if queries is None:
            raise StoreNotAvailable("the worker is not running", START_RETRY_MS)
        return queries.query(store, key, max_lag=max_lag, partition=partition, timeout_s=timeout_s)

    def _require_lookup(self) -> Lookup:
        if self._lookup is None:
            raise KeyNotLocal("the worker is not running")
        return self._lookup
