"""``python -m tests.adapters.late_commit SERVERS TOPIC``: a commit that runs out of time, then another one.

Each waits for a line on standard input, and prints what became of it.
"""

from __future__ import annotations

import sys

from kstreams_assign.adapters.confluent import TransactionalProducer
from kstreams_assign.errors import BrokerUnavailable

PATIENCE_S = 60.0


def main(servers: str, topic: str) -> None:
    producer = TransactionalProducer(servers, group_id="late", transactional_id="late")
    producer.begin(PATIENCE_S)
    producer.produce(topic, 0, b"k", b"late", track=True)
    producer.flush(PATIENCE_S)
    print("written", flush=True)
    sys.stdin.readline()
    try:
        producer.commit(1.0)
    except BrokerUnavailable:
        producer.abort(1.0)
        print("aborted", flush=True)
    else:
        print("in time", flush=True)
    sys.stdin.readline()
    producer.begin(PATIENCE_S)
    producer.produce(topic, 0, b"k", b"later", track=True)
    producer.commit(PATIENCE_S)
    producer.close()
    print("committed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
