"""Orders to count: ``python orders.py BROKERS`` creates the topics, then sends 100 orders a second until it stops."""

import signal
import sys
import threading
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS, REPLICAS = 6, 3
EVERY_S = 0.01

ended = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: ended.set())

settings = {"bootstrap.servers": sys.argv[1]}
admin = AdminClient(settings)
topics = [NewTopic(name, PARTITIONS, REPLICAS) for name in ("orders", "customer-totals")]
for made in admin.create_topics(topics, operation_timeout=30).values():
    try:
        made.result(60)
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
Path("topics-are-there").touch()  # the container's health check looks for it

producer = Producer({**settings, "enable.idempotence": True, "partitioner": "murmur2_random"})
order = 0
while not ended.wait(EVERY_S):
    producer.produce("orders", key=f"customer-{order % 1000}", value=str(order))
    producer.poll(0)
    order += 1
producer.flush(10)
print(f"{order} orders sent", file=sys.stderr)
