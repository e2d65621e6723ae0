"""kafka-python's joins (3.0.12), mended: an assignment that arrives between two calls of ``poll`` is not dropped.

A call of ``poll`` that runs out of time leaves its join under way, and the next call awaits the same join. But a join
that ended in between counts there as none: the client drops the assignment and sends JoinGroup again. That starts a
rebalance for the whole group, and tasks that the dropped assignment gave out have no owner in it. A busy machine lost
several generations of one hand-over in this way.
"""

from __future__ import annotations

from typing import Any


def keep_join_results(coordinator: Any) -> None:
    """Keep each assignment until the client adopts it, or until its generation is reset.

    All of it runs on the client's I/O thread.
    """
    join_and_sync, on_join_complete = coordinator._do_join_and_sync_async, coordinator._on_join_complete_async
    kept: list[tuple[object, bytes]] = []

    async def kept_or_joined() -> bytes:
        if kept and kept[0][0] is coordinator._generation:
            return kept[0][1]
        assignment: bytes = await join_and_sync()
        kept[:] = [(coordinator._generation, assignment)]
        return assignment

    async def complete(*arguments: Any) -> None:
        kept.clear()
        await on_join_complete(*arguments)

    coordinator._do_join_and_sync_async, coordinator._on_join_complete_async = kept_or_joined, complete
