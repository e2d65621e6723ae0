"""kafka-python's joins (3.0.12), mended: a join that was started is finished, and its assignment is adopted.

A call of ``poll`` that runs out of time leaves its join under way, and the next call awaits the same join. Two things
go wrong between the calls:

- The join ends. The client counts it as none, drops the assignment and sends JoinGroup again. That starts a rebalance
  for the whole group, and tasks that the dropped assignment gave out have no owner in it. A busy machine lost several
  generations of one hand-over in this way.
- The reason for the join vanishes: a leader joins when the topics' metadata has changed, and a broker that has just
  started may report a topic's partitions, no partitions, and the partitions again. The client then forgets the join,
  with its heartbeats off: the group expels the member after the session timeout, and until then all others wait for
  it. Java keeps such a join (``AbstractCoordinator.rejoinNeededOrPending``).
"""

from __future__ import annotations

from typing import Any


def finish_joins(coordinator: Any) -> None:
    """Keep each join until it ends, and each assignment until the client adopts it or its generation is reset.

    All of it runs on the client's I/O thread, but for ``need_rejoin``, which changes nothing.
    """
    join_and_sync, on_join_complete = coordinator._do_join_and_sync_async, coordinator._on_join_complete_async
    need_rejoin = coordinator.need_rejoin
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
    coordinator.need_rejoin = lambda: need_rejoin() or coordinator.rejoining
