"""The examples do what they say, on a real broker, as their own processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from kstreams_assign import TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer

EXAMPLES = Path(__file__).parent.parent / "examples"
WITHIN_S = 30
WORDS = [b"to", b"be", b"or", b"not", b"to", b"be"] * 50


@contextmanager
def running(example: str, *arguments: str, folder: Path):
    """An example at work in ``folder``, ended by Ctrl-C; fails if it does not end then."""
    process = subprocess.Popen([sys.executable, EXAMPLES / example, *arguments], cwd=folder)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        process.wait(WITHIN_S)
    finally:
        process.kill()
        process.wait()


def last_values(broker: str, topic: str, wanted: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The newest value of each key once they are as wanted, or as they are when time is up."""
    consumer = InputConsumer(broker, group_id="examples", admin=ClusterAdmin(broker))
    consumer.add({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
    found: dict[bytes, bytes] = {}
    deadline = time.monotonic() + WITHIN_S
    while found != wanted and time.monotonic() < deadline:
        for records in consumer.poll(1_000, 0.1).values():
            found.update((record.key, record.value) for record in records)
    consumer.close()
    return found


def test_word_count_counts_words_and_ends_on_ctrl_c(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"words": 2, "word-counts": 2}, WITHIN_S)
    producer = RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1_000)
    for word in WORDS:
        producer.produce("words", None, word, b"")
    producer.flush(WITHIN_S)
    producer.close()
    wanted = {word: b"%d" % count for word, count in Counter(WORDS).items()}
    with running("word_count.py", broker, folder=tmp_path) as process:
        assert last_values(broker, "word-counts", wanted) == wanted
        assert process.poll() is None
    assert (tmp_path / "state" / "word-count").is_dir()


def test_the_word_count_is_short_enough_to_be_copied():
    lines = (EXAMPLES / "word_count.py").read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if line and not line.startswith(('"""', "import ", "from "))]
    assert len(code) <= 10
