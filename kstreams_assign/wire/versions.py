"""The version numbers of the Streams user-data, as Kafka counts them (``StreamsAssignmentProtocolVersions``)."""

from __future__ import annotations

EARLIEST_VERSION = 1
LATEST_SUPPORTED_VERSION = 11
"""The newest layout of both messages here, and in Kafka 3.2 up to 4.3."""

EARLIEST_PROBEABLE_VERSION = 3
"""From here on a message names the latest version that its sender supports."""

TOPIC_DICTIONARY_VERSION = 5
"""From here on an assignment's host maps name topics by their index in a dictionary."""

COOPERATIVE_VERSION = 5
"""Used by Kafka Streams 2.4, the first release that rebalances cooperatively."""

OFFSET_SUMS_VERSION = 7
"""From here on a subscription reports offset sums; before, only which tasks were active and which standby."""

UNIQUE_FIELD_VERSION = 8
"""From here on a subscription has a field that changes with every join."""

ERROR_CODE_VERSION = 9
"""Used by Kafka Streams 2.8: from here on a subscription has an error code, by which a member asks all to shut down."""

NAMED_TOPOLOGY_VERSION = 10
"""From here on a task id may carry the name of its topology."""

UNKNOWN_VERSION = -1
"""The supported version of a message that is too old to name one (1 and 2)."""
