"""``kstreams-assign migrate``: the words of the command. The work is in ``migrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kstreams_assign.insight.command import ClientPairs, Timeout


def migrate(
    application_id: Annotated[str, typer.Argument(metavar="APP", help="The application id, which is the group.")],
    to: Annotated[str, typer.Option("--to", help="The protocol to change to: streams or classic.")],
    bootstrap_servers: Annotated[
        str, typer.Option("--bootstrap-servers", "-b", help="Brokers of the group, HOST:PORT,...")
    ],
    config: Annotated[
        Path | None, typer.Option("--config", help="A worker's settings as TOML: checks them, too.")
    ] = None,
    client: ClientPairs = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """Check whether a group can change its protocol: what stands in the way, what to set, what is kept.

    A group changes its protocol while it has no members: stop all of them, and start them with the other one. This
    command changes nothing. Exit status 1 if something stands in the way, 3 if no broker answers.

    Example: kstreams-assign migrate orders-app --to streams -b localhost:9092 --config worker.toml
    """
    import json

    from kstreams_assign.allowed_values import check_value
    from kstreams_assign.client_settings import client_pairs
    from kstreams_assign.errors import ConfigError
    from kstreams_assign.insight import migrate as work
    from kstreams_assign.insight.client_logs import without_client_logs

    try:
        check_value("group_protocol", to)
    except ConfigError as cause:
        raise ConfigError(f"--to {to}: must be streams or classic") from cause
    asked = work.Asked(application_id, to, bootstrap_servers, config, client_pairs(client or ()), timeout_s)
    with without_client_logs(asked.client):
        facts, migration = work.look(asked)
    print(
        json.dumps(work.as_json(facts, migration), indent=2) if as_json else "\n".join(work.as_lines(facts, migration))
    )
    if migration.way:
        raise typer.Exit(1)
