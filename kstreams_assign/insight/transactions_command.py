"""``kstreams-assign transactions``: the words of the command. The work is in ``transactions``."""

from __future__ import annotations

from typing import Annotated

import typer

from kstreams_assign.insight.command import ClientPairs, Timeout
from kstreams_assign.observe.transactions import Decision


def transactions(
    application_id: Annotated[str, typer.Argument(help="The application id, which is the group.")],
    bootstrap_servers: Annotated[
        str, typer.Option("--bootstrap-servers", "-b", help="Brokers of the group, HOST:PORT,...")
    ],
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic more to look at: what others write into, say.")
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="End what hangs, as its coordinator had decided.")] = False,
    given: Annotated[
        Decision | None, typer.Option("--as", help="How to end its own where no log tells how it was decided.")
    ] = None,
    client: ClientPairs = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """Find open transactions that keep an application waiting, and those that hang, so that only --end ends them.

    Looks at changelogs, repartition topics, inputs, and the group's committed offsets; Java or Python. Exit status 1
    while a transaction hangs, 3 if no broker answers.

    Example: kstreams-assign transactions orders-app -b localhost:9092
    """
    import json

    from kstreams_assign.client_settings import client_pairs
    from kstreams_assign.errors import ConfigError
    from kstreams_assign.insight import transactions as work
    from kstreams_assign.insight.client_logs import without_client_logs

    if given is not None and not end:
        raise ConfigError(f"--as {given.value}: says how to end something; give --end, too")
    asked = work.Asked(
        application_id, bootstrap_servers, topic or (), client_pairs(client or ()), timeout_s, end, given
    )
    with without_client_logs(asked.client):
        look = work.open_transactions(asked)
    print(json.dumps(work.as_json(asked, look), indent=2) if as_json else "\n".join(work.as_lines(asked, look)))
    if any(transaction.hangs for transaction in look.open):
        raise typer.Exit(1)
