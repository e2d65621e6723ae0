"""Sum payments by account; what is no payment becomes a dead letter: ``python bad_records.py localhost:9092``."""

import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Subtopology, Task, Worker


def add(task: Task, payments: Sequence[Record]) -> None:
    balances = task.store("balances")
    for payment in payments:
        amount = json.loads(payment.value or b"")["amount"]  # raises for a record that is no payment
        balance = int(balances.get(payment.key or b"") or 0) + int(amount)
        balances.put(payment.key or b"", b"%d" % balance)
        task.emit("balances", payment.key, b"%d" % balance)


config = Config(
    application_id="payments",
    bootstrap_servers=sys.argv[1],
    errors_dead_letter_queue_topic_name="payments-dead-letters",
)
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):
    subtopology = Subtopology(
        add, sources=["deposits"], stores=["balances"], sinks=["balances"], on_error="dead_letter"
    )
    Worker(config, [subtopology]).run()
