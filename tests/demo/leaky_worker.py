"""A worker with a fault that was put in on purpose: its flush answers at once, while records still wait to be sent.

So offsets are committed before what they stand for is in the broker, and a kill loses the difference. A close in order
sends everything, so that nothing but a kill can lose.
"""

from __future__ import annotations

from kstreams_assign.adapters.confluent import RecordProducer
from kstreams_assign.demo import worker
from kstreams_assign.worker import committing

LINGER_MS = 3_000
DELIVERY_TIMEOUT_MS = 60_000
CLOSE_WITHIN_S = 10


class LeakyProducer(RecordProducer):
    def __init__(self, bootstrap_servers, client=None, **_delivery_timeout):
        lingering = {**(client or {}), "linger.ms": str(LINGER_MS)}
        super().__init__(bootstrap_servers, lingering, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)

    def flush(self, _timeout_s):
        return self.acknowledged()

    def acknowledged(self):
        """The fault: what has arrived so far is taken for everything."""
        self._producer.poll(0)
        return self._flight.take()

    def close(self):
        super().flush(CLOSE_WITHIN_S)
        super().close()


if __name__ == "__main__":
    committing.RecordProducer = LeakyProducer
    worker.main()
