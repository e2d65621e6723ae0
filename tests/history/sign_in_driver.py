"""``python -m tests.history.sign_in_driver BROKER OUT LOGGING``: follow a broker with a password from standard input.

The broker has no SASL, so the run fails; the error is printed. A process of its own, as Spark allows one session each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kstreams_assign.errors import BrokerError, SparkError
from kstreams_assign.history.follow import Settings, follow_until_done, following
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.session import spark_session
from kstreams_assign.history.source import Broker

CLIENT = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


def main(broker: str, out: str, logging: str) -> None:
    """Fail to sign in."""
    secret, layout = sys.stdin.read(), Layout(Path(out))
    options = f"-Dlog4j2.configurationFile=file:{logging} -XX:TieredStopAtLevel=1"
    settings = {"spark.x.password": secret, "spark.driver.extraJavaOptions": options}
    source = Broker(broker, {**CLIENT, "sasl.password": secret}, partitions=1)
    try:
        with (
            spark_session("local[1]", log=layout.log, settings=settings) as session,
            following(session, source, layout, Settings(once=True)) as query,
        ):
            follow_until_done(query, layout, lambda _: None)
    except (BrokerError, SparkError) as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
