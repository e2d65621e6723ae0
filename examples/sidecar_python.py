"""Count orders per customer at a sidecar: ``python sidecar_python.py app.sock customer-totals``.

The worker (``kstreams-assign worker``) is the member; this program polls, adds up, and commits.
It may die at any moment.
"""

import sys
from collections import Counter

from kstreams_assign import Columns, SidecarClient, SidecarDisconnected, SidecarRefused


def count(session: SidecarClient, orders: Columns, sink: str) -> None:
    customers = Counter(key for key in orders.key if key is not None)
    keys = list(customers)
    before = session.get(orders.task, "totals", keys)
    totals = {key: b"%d" % (int(total or 0) + customers[key]) for key, total in zip(keys, before, strict=True)}
    session.put(orders.task, "totals", totals)
    session.emit(orders.task, sink, list(totals), list(totals.values()))


def run(session: SidecarClient, sink: str) -> None:
    while True:
        for orders in session.poll_columns(max_records=5_000):
            try:
                count(session, orders, sink)
            except SidecarRefused as refused:
                if refused.code != "task_migrated":  # its next owner reads these orders again
                    raise
        session.commit()


try:
    with SidecarClient(sys.argv[1]) as open_session:
        run(open_session, sys.argv[2])
except (KeyboardInterrupt, SidecarDisconnected) as end:
    print(f"ended: {str(end) or 'Ctrl-C'}", file=sys.stderr)
