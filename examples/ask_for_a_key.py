"""Count words, and answer ``GET /WORD`` at every process with the count of the word, wherever it is.

``python examples/ask_for_a_key.py [BROKER [HTTP_PORT]]``; start it twice, with two ports.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote_to_bytes

from kstreams_assign import Config, Record, StoreNotAvailable, Subtopology, Task, Worker


def count(task: Task, records: Sequence[Record]) -> None:
    counts = task.store("counts")
    for record in records:
        if record.key is not None:
            counts.put(record.key, b"%d" % (int(counts.get(record.key) or b"0") + 1))


broker, port = (*sys.argv[1:], *("localhost:9092", "8080")[len(sys.argv) - 1 :])
config = Config(
    application_id="asked-word-count",
    bootstrap_servers=broker,
    state_dir=f"state/{port}",
    num_standby_replicas=1,
    query="127.0.0.1:0",
)
worker = Worker(config, [Subtopology(count, sources=["asked-words"], stores=["counts"])])


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        word = unquote_to_bytes(self.path[1:])
        try:
            result = worker.query("counts", word, max_lag=100, timeout_s=2)
        except StoreNotAvailable as moving:
            self.send_response(503)
            self.send_header("Retry-After", str(-(-moving.retry_after_ms // 1000)))
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(result.value or b"0")


http = ThreadingHTTPServer(("127.0.0.1", int(port)), Answers)
print(f"http://127.0.0.1:{http.server_address[1]}/", flush=True)
threading.Thread(target=http.serve_forever, daemon=True).start()
with suppress(KeyboardInterrupt):
    worker.run()
