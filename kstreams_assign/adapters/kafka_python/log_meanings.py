"""What kafka-python's warnings mean for a member; its own text names sockets and tasks of its event loop."""

from __future__ import annotations

from kstreams_assign.adapters.client_logs import meaning

LOGGER_NAME = "kafka"

_AT = r"host=(?:\[)?(?P<broker>[^<\]\s]+)"
"""kafka-python's name of a connection: ``<KafkaConnection node_id=1 host=[127.0.0.1:9092<-50512] ...>``."""

KAFKA_PYTHON_MEANINGS = (
    meaning(r"blocking the event loop", None),
    meaning(r"^Rebalance listener ", None),
    meaning(r"^No node available for metadata refresh", None),  # a failed connection was logged before
    meaning(r"^Metadata refresh: failed", None),
    meaning(r"^Bootstrap \S+ not ready", None),
    meaning(r"^Bootstrap failed: ", None),  # comes out of the call that connects
    meaning(r"^Connection failed: ", None),  # the lines after it name the broker
    meaning(r"node_id=bootstrap\S* .*Connection lost", None),
    meaning(r"^Error sending \w+ to node ", None),
    meaning(r"socket disconnected|: Error receiving network data|: Error sending request data|: Abort \(", None),
    # The coordinator has moved or is loading, as for the first group of a cluster: the client finds it again.
    meaning(
        r"^Marking the coordinator dead .*(NotCoordinator|CoordinatorNotAvailable|CoordinatorLoadInProgress)", None
    ),
    # The worker's events "lost", "commit_refused" and "broker_unavailable" tell these with what follows.
    meaning(r"^Heartbeat failed for group .*(not started or not valid|not +current)", None),
    meaning(r"^Heartbeat: local member_id was not recognized", None),
    meaning(r"^OffsetCommit for group \S+ failed: ", None),
    meaning(
        r"^Heartbeat session expired",
        "No heartbeat of this member was answered for a session timeout; it looks for the group's coordinator again.",
    ),
    meaning(
        r"^Marking the coordinator dead \(node \D*(?P<broker>\d+)\) for group \S+: (?P<cause>.*?)\.?$",
        "Broker {broker}, which coordinates the group, does not answer ({cause}); "
        "this member looks for the coordinator again.",
    ),
    meaning(
        r"^Bootstrap (?:connection|attempt) to \S+ failed: (?P<cause>.*) \(backoff",
        "The brokers of bootstrap_servers cannot be reached ({cause}); the membership client tries again.",
    ),
    meaning(
        rf"{_AT}.*Request timed out after (?P<ms>\d+) ms",
        "Broker {broker} did not answer a request in {ms} ms; the membership client connects again.",
    ),
    meaning(
        rf"{_AT}.* throttled by broker \((?P<ms>\d+) ms\)",
        "Broker {broker} throttles the membership client for {ms} ms: its quota is used up.",
    ),
    meaning(
        r"node_id=\D*(?P<broker>\d+) .*Connection lost: (?P<cause>.*)",
        "The connection to broker {broker} is lost ({cause}); the membership client connects again.",
    ),
    meaning(
        r"in the clear",
        "The user's credentials go to the broker unencrypted: set security.protocol = SASL_SSL under client.",
    ),
    meaning(
        r"SASL re-authentication failed: (?P<cause>.*)",
        "The broker did not renew the sign-in ({cause}); the membership client connects and signs in again.",
    ),
    meaning(
        r"^Topic (?P<topic>\S+) topic_id changed",
        "Topic {topic} was deleted and created again; the membership client reads its metadata again.",
    ),
)
