"""``kstreams-assign inspect`` and ``decode``: the words of the commands. The work is in the modules beside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Servers = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", "-b", help="Brokers of the group, HOST:PORT,... Without: a saved file."),
]
TopologyFile = Annotated[
    Path | None,
    typer.Option("--topology", help="What Java's Topology.describe() prints, or our TOML. Without: inferred."),
]
SetPairs = Annotated[
    list[str] | None, typer.Option("--set", help="A setting of the group: KEY=VALUE, as in num_standby_replicas=1.")
]
ClientPairs = Annotated[
    list[str] | None,
    typer.Option("--client", help="For the Kafka clients: KEY=VALUE, as in security.protocol=SASL_SSL."),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.5, help="Seconds to wait for each answer of the brokers.")]


def inspect(
    group: Annotated[str, typer.Argument(metavar="GROUP|FILE", help="A group, or a snapshot that was saved.")],
    bootstrap_servers: Servers = None,
    topology: TopologyFile = None,
    settings: SetPairs = None,
    client: ClientPairs = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
    assumptions: Annotated[
        bool, typer.Option("--assumptions", help="List what is assumed because the group does not report it.")
    ] = False,
    save: Annotated[Path | None, typer.Option("--save", help="Keep the snapshot in this file, for later.")] = None,
    timeout_s: Timeout = 10.0,
) -> None:
    """Look into a Kafka Streams group, Java or Python: who has what, what it waits for, what comes next.

    Exit status 1 if there is no such group or it is none of Kafka Streams, 3 if no broker answers.

    Example: kstreams-assign inspect orders-app -b localhost:9092 --watch
    """
    from kstreams_assign.errors import ConfigError
    from kstreams_assign.insight import inspect as work

    if watch and save is not None:
        raise ConfigError("--save: keeps one snapshot; leave out --watch")
    wanted = work.asked(group, bootstrap_servers, topology, settings or (), client or (), timeout_s)
    if watch:
        work.watch(wanted, as_json=as_json, assumptions=assumptions)
    else:
        work.inspect_once(wanted, as_json=as_json, save=save, assumptions=assumptions)


def decode(
    kind: Annotated[
        str,
        typer.Argument(
            help="subscription, assignment, group-metadata, offset-commit or offsets-key; of streams groups (KIP-1071) "
            "streams-group-metadata, streams-member-metadata, streams-target-metadata, streams-target-assignment, "
            "streams-current-assignment, streams-topology, and streams-heartbeat-request, streams-heartbeat-response, "
            "streams-describe-request, streams-describe-response."
        ),
    ],
    data: Annotated[str, typer.Argument(metavar="BYTES", help="Hex, base64, a file, or - for standard input.")],
    dialect: Annotated[
        str | None, typer.Option("--dialect", help="apache, kip441 or kip441-draft. Without: the first that fits.")
    ] = None,
) -> None:
    """Show the bytes of a Kafka Streams group as JSON: which version, which dialect, what they say.

    Takes user-data alone or with the consumer protocol around it. Exit status 1 if the bytes are damaged.

    Example: kstreams-assign decode assignment 000000010000000000000000
    """
    import json

    from kstreams_assign.errors import MalformedUserData
    from kstreams_assign.insight.decode import read_bytes
    from kstreams_assign.observe.decoding import decode_bytes

    read = read_bytes(data)
    try:
        decoded = decode_bytes(kind, read.data, dialect)
    except MalformedUserData as damage:
        raise MalformedUserData(f"{damage} ({data[:40]} was read as {read.form})") from damage
    typer.echo(json.dumps(decoded, indent=2))
