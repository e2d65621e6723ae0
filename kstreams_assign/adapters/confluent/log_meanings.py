"""What librdkafka's warnings mean; its lines are ``FACILITY [client] [thread]: text``."""

from __future__ import annotations

from kstreams_assign.adapters.client_logs import meaning

LOGGER_NAME = "kstreams_assign.adapters.confluent"

LIBRDKAFKA_MEANINGS = (
    meaning(r"^GETPID .*retrying", None),  # a new producer asks until its coordinator is loaded
    meaning(
        r"^(?:FAIL|ERROR) .*\]: (?:GroupCoordinator: )?(?:\S+://)?(?P<broker>[^\s/]+:\d+)(?:/\S+)?: "
        r"(?P<cause>.*?)(?: \(after .*)?$",
        "The connection to broker {broker} failed ({cause}); the record clients connect again.",
    ),
    meaning(
        r"^ERROR .*\d+/\d+ brokers are down",
        "No broker can be reached; the record clients try again until one answers.",
    ),
    meaning(
        r"^REQTMOUT .*\]: (?:\S+://)?(?P<broker>[^\s/]+:\d+)(?:/\S+)?: Timed out (?P<count>\d+)",
        "Broker {broker} did not answer {count} requests in time; the record clients send them again.",
    ),
    meaning(
        r"^(?:THROTTLE|QUOTA) .*",
        "A broker throttles the record clients: their quota is used up.",
    ),
)
