"""Count per key with Faust. Runs in the peers' environment. Arguments: see ``count.py``."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable

import faust


def main(servers: str, application: str, state: str, source: str, sink: str) -> None:
    """Run until it is killed."""
    app = faust.App(
        application,
        broker=f"kafka://{servers}",
        store="rocksdb://",
        datadir=state,
        topic_partitions=1,
        web_enabled=False,
    )
    counts = app.Table("counts", key_type=bytes, value_type=int, default=int, partitions=1)
    results = app.topic(sink, key_type=bytes, value_type=bytes)

    @app.agent(app.topic(source, key_type=bytes, value_type=bytes))
    async def count(records: AsyncIterable[bytes]) -> None:
        async for key, _value in records.items():  # noqa: PERF102  # a stream's, not a dict's
            counts[key] += 1
            await results.send(key=key, value=b"%d" % counts[key])

    faust.Worker(app, loglevel="warning").execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:])
