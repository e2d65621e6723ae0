"""``kstreams-assign get``: the words of the command. The work is in ``get``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kstreams_assign.insight.command import ClientPairs, Timeout

TOKEN_VARIABLE = "KSTREAMS_ASSIGN_QUERY_TOKEN"  # noqa: S105  # the name of the variable


def get(
    application_id: Annotated[str, typer.Argument(metavar="APP", help="The application id.")],
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key as text; bytes with --hex.")],
    bootstrap_servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", "-b", help="Brokers of the group, to find a process that runs.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", help="A process to ask, HOST:PORT, instead of the group.", metavar="HOST:PORT"),
    ] = None,
    max_lag: Annotated[
        int | None, typer.Option(min=0, help="Let a replica answer that lacks at most so many changelog offsets.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Where the key is, if Java's default partitioner did not choose.")
    ] = None,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="KEY is given as hexadecimal digits.")] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the query_token. Without: the environment variable {TOKEN_VARIABLE}."),
    ] = None,
    client: ClientPairs = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """Show the committed value of a key, from the process of the application that has it.

    The processes must have the setting query; the command finds them by the group. Bytes that are not UTF-8 are shown
    as \\x00; --json writes them as {"hex": ...}. Exit status 1 if the key has no value or there is no such group, 2 if
    the token or the store is wrong, 3 if no process can answer now.

    Example: kstreams-assign get word-count totals kafka -b localhost:9092
    """
    import os

    from kstreams_assign.client_settings import client_pairs
    from kstreams_assign.errors import ConfigError
    from kstreams_assign.insight import get as work
    from kstreams_assign.insight.files import read_text

    if (bootstrap_servers is None) == (query is None):
        raise ConfigError("give either --bootstrap-servers, to find a process by the group, or --query HOST:PORT")
    token = read_text(token_file, "--token-file").strip() if token_file else os.environ.get(TOKEN_VARIABLE)
    settings = client_pairs(client or ())
    found = (query,) if query else work.members_of(bootstrap_servers or "", application_id, settings, timeout_s)
    asked = work.Asked(application_id, store, work.key_bytes(key, hexadecimal=hexadecimal), max_lag, partition)
    if not work.show_value(asked, found, token, timeout_s, as_json=as_json):
        raise typer.Exit(1)
