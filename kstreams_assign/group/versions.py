"""Which version of user-data a member speaks: version probing (KIP-268), the follower's half.

The idea: a member begins with its newest version. A leader that cannot read that, or has a member that cannot, answers in the version
that everybody used, and names the newest that everybody could; whoever sees that they differ from its own speaks that one and joins
again at once. So a group goes down with its first older member and up again with its last. The leader's half is ``view.read_group``.
"""

from __future__ import annotations

from kstreams_assign.errors import AssignmentRefused
from kstreams_assign.wire import COOPERATIVE_VERSION, EARLIEST_PROBEABLE_VERSION, AssignmentInfo


def version_after(used: int, latest: int, info: AssignmentInfo) -> int:
    """The version to join with after this assignment; another than ``used`` means: join again at once.

    ``latest`` is the newest that this member can (``StreamsPartitionAssignor.maybeUpdateSubscriptionVersion``). Raises ``AssignmentRefused``
    for versions that a leader may not answer with, and where a leader of a release before 2.4 may lead.
    """
    _check(used, latest, info)
    common = info.commonly_supported_version
    if info.version >= EARLIEST_PROBEABLE_VERSION and (common > used or info.version < used):
        return common
    return used


def _check(used: int, latest: int, info: AssignmentInfo) -> None:
    """As ``validateMetadataVersions``; and before 2.4 Java's rebalances are eager: its leader gives away what others still run."""
    common = info.commonly_supported_version
    if info.version > used or common > latest:
        raise AssignmentRefused(
            f"the leader answers in version {info.version} and says that all members can speak version {common}, but this member "
            f"joined with version {used} and can speak {latest}: the leader is of no release that is known here"
        )
    if common < COOPERATIVE_VERSION and info.trailer is None:
        raise AssignmentRefused(
            f"a member of the group speaks version {info.version} at most, as Kafka Streams before 2.4 does: its rebalances are eager, and ours "
            "are cooperative (KIP-429); upgrade every Java member to 2.4 or later before Python members join"
        )
