"""Count per key with Quix Streams. Runs in the peers' environment. Arguments: see ``count.py``."""

from __future__ import annotations

import sys

from quixstreams import Application, State


def main(servers: str, application: str, state: str, source: str, sink: str) -> None:
    """Run until it is killed."""

    def count(_value: bytes, counts: State) -> int:
        now = counts.get("count", 0) + 1
        counts.set("count", now)
        return now

    app = Application(
        broker_address=servers, consumer_group=application, state_dir=state, auto_offset_reset="earliest", loglevel=None
    )
    records = app.dataframe(app.topic(source, key_deserializer="bytes", value_deserializer="bytes"))
    records.apply(count, stateful=True).to_topic(app.topic(sink, key_serializer="bytes", value_serializer="json"))
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
