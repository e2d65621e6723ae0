"""``kstreams-assign dead-letters``: the words of the command. The work is in ``dead_letters``."""

from __future__ import annotations

from typing import Annotated

import typer

from kstreams_assign.insight.command import ClientPairs, Timeout


def dead_letters(
    application_id: Annotated[str, typer.Argument(metavar="APP", help="The application id.")],
    bootstrap_servers: Annotated[
        str, typer.Option("--bootstrap-servers", "-b", help="Brokers of the cluster, HOST:PORT,...")
    ],
    topic: Annotated[
        str | None,
        typer.Option(help="The application's errors_dead_letter_queue_topic_name. Without: APP-dead-letters."),
    ] = None,
    resend: Annotated[
        bool, typer.Option("--resend", help="Send the records to their input partitions again, each once.")
    ] = False,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="With --resend: send all letters of partitions for which it is not known what was sent.",
        ),
    ] = False,
    sent_too: Annotated[bool, typer.Option("--all", help="List also what has been sent again.")] = False,
    client: ClientPairs = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON a dead letter.")] = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """List the records that an application could not process, each with its error, and send them again.

    Reads the dead letters of Python and Java applications. --resend works in transactions: an interrupted call leaves
    no record behind and sends none twice. It needs the right to write to the input topics, and to use APP-dead-letters
    as a group and as a transactional id. Exit status 1 if letters could not be sent again, or there is no such topic.

    Brokers delete the record of what was sent after offsets.retention.minutes (by default 7 days). For a partition
    without that record, --resend refuses if the first letter is older than that, also the first time. Add
    --from-beginning if no letter was ever sent again, or to send all again.

    Example: kstreams-assign dead-letters orders-app -b localhost:9092 --resend
    """
    from kstreams_assign.client_settings import client_pairs
    from kstreams_assign.errors import ConfigError
    from kstreams_assign.insight import dead_letters as work
    from kstreams_assign.insight.client_logs import without_client_logs
    from kstreams_assign.insight.topics import Cluster

    if resend and sent_too:
        raise ConfigError("--all: lists what has been sent again; leave it out with --resend")
    if from_beginning and not resend:
        raise ConfigError("--from-beginning: needs --resend; without it, nothing is sent")
    settings = client_pairs(client or (), with_kafka_python=False)
    with without_client_logs(settings):
        asked = work.Asked(
            Cluster(bootstrap_servers, settings, timeout_s),
            application_id,
            topic or f"{application_id}-dead-letters",
            sent_too=sent_too,
            from_beginning=from_beginning,
            as_json=as_json,
        )
        if not resend:
            work.list_letters(asked)
        elif work.resend(asked):
            raise typer.Exit(1)
