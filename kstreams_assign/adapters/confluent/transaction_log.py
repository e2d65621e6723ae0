"""What a transaction's coordinator wrote about it: ``__transaction_state``, read for one transactional id.

The topic is compacted; what is left of the id's partition is read from its first offset to its end. What must not live
here: what follows (``observe.transactions.decided``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kstreams_assign.adapters.confluent.admin import ClusterAdmin
from kstreams_assign.adapters.confluent.coordinators import TRANSACTIONS_TOPIC, kept_in
from kstreams_assign.adapters.confluent.feed import Feed
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.wire.transaction_log import LoggedTransaction, decode_transaction, encode_transaction_key

BATCH = 10_000
TURN_S = 0.2


def logged_transactions(
    bootstrap_servers: str, client: Mapping[str, str] | None, transactional_id: str, group_id: str, timeout_s: float
) -> list[LoggedTransaction]:
    """Every step that is still in the log, oldest first.

    Raises ``BrokerError``, ``BrokerUnavailable``, ``MalformedUserData``.
    """
    deadline = time.monotonic() + timeout_s
    admin = ClusterAdmin(bootstrap_servers, client)
    where = kept_in(admin, TRANSACTIONS_TOPIC, transactional_id, timeout_s)
    first, _ = admin.bounds([where], timeout_s)[where]
    key, transactions = encode_transaction_key(transactional_id), []
    feed = Feed(
        bootstrap_servers,
        client,
        group_id=group_id,
        read_committed=False,
        tuning={},
        needed={"enable.partition.eof": True},
    )
    try:
        feed.add({where: first})
        while time.monotonic() < deadline:
            taken = feed.take(BATCH, TURN_S)
            values = [message.value() for message in taken.messages if message.key() == key]
            transactions += [decode_transaction(value) for value in values if value is not None]
            if where in taken.ends:
                return transactions
    finally:
        feed.close()
    raise BrokerUnavailable(f"reading {where} took longer than {timeout_s:g} s; allow more (--timeout)")
