"""The membership of a worker: in a classic group, or in a streams group (KIP-1071), as the settings say.

Both answer the same questions. What must not live here: what either of them does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.assign import Loads
from kstreams_assign.config import Config
from kstreams_assign.engine.membership import SHUTDOWN_REFUSED
from kstreams_assign.engine.warm_disk import Disk
from kstreams_assign.errors import BrokerUnavailable, ConfigError
from kstreams_assign.events import WarningsEvent
from kstreams_assign.group.streams_settings import check_session, ineffective_settings, refuse_static_member
from kstreams_assign.group.streams_topology import refuse_patterns
from kstreams_assign.model import TaskId, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.members import Members
from kstreams_assign.state.mutex import ReportMutex
from kstreams_assign.worker.connecting import group_client, streams_connections
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.membership import Membership, Work
from kstreams_assign.worker.predecessors import PredecessorCleanup
from kstreams_assign.worker.streams_look import GroupLook
from kstreams_assign.worker.streams_member import StreamsMember

AnyMember = Membership | StreamsMember

Request = Callable[[AnyMember], None]
"""What another thread wants of the membership."""


def drain(member: AnyMember) -> None:
    """Have the tasks warmed up elsewhere, then leave."""
    member.drain()


def announce_restart(member: AnyMember) -> None:
    """Announce that this process leaves and is back soon."""
    member.announce_restart()


def refuse_shutdown(member: AnyMember) -> None:
    """Raise ``ConfigError`` if the group cannot be asked to end, as far as this member knows by now."""
    if isinstance(member, Membership) and not member.can_ask_shutdown:
        raise ConfigError(SHUTDOWN_REFUSED)


def shut_application_down(member: AnyMember) -> None:
    """Ask all members to end."""
    member.shut_application_down()


def connect_member(
    config: Config,
    shape: TopologyShape,
    process: UUID,
    work: Work,
    leading: Leading,
    early: EarlyProbing,
    members: Members | None,
    sums: OffsetSums,
    mutex: ReportMutex,
    admin: ClusterAdmin,
    log: EventLog,
    lags: Callable[[], Mapping[TaskId, int]],
    disk: Callable[[], Disk | None],
    drained: Callable[[], None],
    loads: Callable[[], Loads],
) -> tuple[AnyMember, Callable[[EndRequest], None]]:
    """Return a member, connected, and the call that talks to the other members until the end is requested.

    ``members`` keeps the member id across restarts, if it is given. ``lags`` and ``disk`` are asked for in streams
    groups: offsets that each task's state here lacks, and the room for more; None is as much as is needed. ``loads``
    are asked for in classic groups: those of running tasks (``balance_by``). Raises ``BrokerUnavailable``,
    ``ConfigError``.
    """
    if config.in_streams_group:
        member = _streams_member(config, shape, process, work, members, admin, log, sums, lags, disk, drained)
        return member, member.leaving.run
    classic = Membership(
        config,
        shape,
        process,
        work,
        leading,
        sums,
        mutex,
        log,
        lambda membership: group_client(config, shape, admin, membership),
        early.adopted,
        drained,
        PredecessorCleanup(config, members, log),
        loads,
    )
    return classic, early.run


def _streams_member(
    config: Config,
    shape: TopologyShape,
    process: UUID,
    work: Work,
    members: Members | None,
    admin: ClusterAdmin,
    log: EventLog,
    sums: OffsetSums,
    lags: Callable[[], Mapping[TaskId, int]],
    disk: Callable[[], Disk | None],
    drained: Callable[[], None],
) -> StreamsMember:
    refuse_patterns(shape)
    connections = streams_connections(config, process, admin)
    try:
        refuse_static_member(config, connections.heartbeats.heartbeat_version())
        group = GroupLook(config.application_id, connections.heartbeats, admin)
        warnings = ineffective_settings(config) + check_session(config, _settings(group))
        if warnings:
            log.emit(WarningsEvent(warnings=warnings))
        return StreamsMember(config, shape, process, work, members, admin, log, connections, sums, lags, disk, drained)
    except BaseException:
        connections.close()
        raise


def _settings(group: GroupLook) -> Mapping[str, str]:
    """Return the brokers' settings of the group; none also where no broker answers just now."""
    try:
        return group.settings()
    except BrokerUnavailable:
        return {}
