"""The version of user-data that a member speaks: version probing (KIP-268), the follower's half.

A member begins with its newest version. A leader that cannot read it, or has a member that cannot, answers in the
newest version that all members used, and names the newest that all members support. A member whose own version differs
switches to that one and joins again at once. So a group goes down with its first older member and up again with its
last. The leader's half is ``view.read_group``.
"""

from __future__ import annotations

from kstreams_assign.errors import AssignmentRefused
from kstreams_assign.wire import COOPERATIVE_VERSION, EARLIEST_PROBEABLE_VERSION, AssignmentInfo


def version_after(used: int, latest: int, info: AssignmentInfo) -> int:
    """Return the version to join with after this assignment; if it differs from ``used``, join again at once.

    ``latest`` is the newest that this member supports (``StreamsPartitionAssignor.maybeUpdateSubscriptionVersion``).
    Raises ``AssignmentRefused`` for versions that a leader may not answer with, and where a leader of a release before
    2.4 may lead.
    """
    _check(used, latest, info)
    common = info.commonly_supported_version
    if info.version >= EARLIEST_PROBEABLE_VERSION and (common > used or info.version < used):
        return common
    return used


def _check(used: int, latest: int, info: AssignmentInfo) -> None:
    """Check the versions, as ``validateMetadataVersions``.

    Before 2.4 Java's rebalances are eager: its leader assigns tasks that other members still run.
    """
    common = info.commonly_supported_version
    if info.version > used or common > latest:
        raise AssignmentRefused(
            f"the leader answers in version {info.version} and claims that all members support version {common}, "
            f"but this member joined with version {used} and supports {latest}: the leader runs an unknown release"
        )
    if common < COOPERATIVE_VERSION and info.trailer is None:
        raise AssignmentRefused(
            f"a member of the group supports at most version {info.version}, as Kafka Streams before 2.4 does: its "
            "rebalances are eager, and Python members rebalance cooperatively (KIP-429); upgrade every Java member to "
            "2.4 or later before Python members join"
        )
