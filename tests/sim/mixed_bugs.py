"""Bugs to plant that only a group with Java members shows, as those of ``bugs``."""

from __future__ import annotations

from kstreams_assign.assign import VERSIONS
from kstreams_assign.engine import membership as engine_membership
from kstreams_assign.group import encode, leader
from kstreams_assign.group.assignor_choice import Choice
from kstreams_assign.group.member import Member
from kstreams_assign.model import NO_PROBE_MS
from kstreams_assign.sim import early, membership
from kstreams_assign.sim.client import Client
from tests.sim.bugs import Bug


class StubbornMembership(engine_membership.Membership):
    """Waits for a leader that can read of its drain."""

    def _drain_on(self, adopted):
        return [] if adopted.assignor is None else super()._drain_on(adopted)


class ForgetfulEarly(early.engine.Early):
    """Asks for a replica, under a Java leader, in each generation in which it catches up."""

    def _watch_own(self, generation, event):
        self._generation = None
        super()._watch_own(generation, event)


def java_owner_ignored(monkeypatch):
    """Our leader assigns tasks at once that a Java member still owns."""
    real = leader.hand_out

    def wrong(processes, owners, *rest):
        read = [consumer for consumers in processes.values() for consumer in consumers]
        ours = {consumer.member.member_id for consumer in read if consumer.info.trailer is not None}
        kept = {partition: member for partition, member in owners.items() if member in ours} if ours else owners
        return real(processes, kept, *rest)

    monkeypatch.setattr(leader, "hand_out", wrong)


def endpoint_left_out(monkeypatch):
    """The leader leaves one endpoint out of the host maps."""
    real = encode._host_maps

    def wrong(*group):
        return tuple(dict(list(hosts.items())[1:]) for hosts in real(*group))

    monkeypatch.setattr(encode, "_host_maps", wrong)


def own_assignor_kept(monkeypatch):
    """Our leader decides with the assignor of its setting, whatever members the group has."""
    real = leader.choose

    def wrong(view, wanted, *, ends_known):
        chosen = real(view, wanted, ends_known=ends_known)
        return Choice(wanted, max(VERSIONS[wanted])) if ends_known else chosen

    monkeypatch.setattr(leader, "choose", wrong)


def promises_in_javas_decision(monkeypatch):
    """In the fallback, a withheld task counts as run by the process that waits for it, which Java does not know."""
    real = leader.build_cluster

    def wrong(view, question, tasks, **more):
        cluster = real(view, question, tasks, **more)
        return cluster if question.end_offsets else leader._as_promised(cluster, question.promised)

    monkeypatch.setattr(leader, "build_cluster", wrong)


class TrailingMember(Member):
    """Asks for a follow-up only where the trailer announces one."""

    def _assigned(self, event, before, now_ms):
        actions = super()._assigned(event, before, now_ms)
        if self.rejoin_at_ms == 0 and not event.adopted.follow_up:
            self.rejoin_at_ms = NO_PROBE_MS
        return actions

    _REACTIONS = {**Member._REACTIONS, membership.machine.Assigned: _assigned}  # noqa: RUF012


class ContentClient(Client):
    """Does not join again after it has revoked partitions."""

    def _synced(self, answer, sent_ms):
        super()._synced(answer, sent_ms)
        self._rejoin_needed = self._rejoin_needed and not self.joined


def only_trailers_announce(monkeypatch):
    monkeypatch.setattr(membership.machine, "Member", TrailingMember)
    monkeypatch.setattr(membership, "Client", ContentClient)


MIXED_BUGS = (
    Bug(
        "the new owner does not wait for a Java owner",
        "one active owner per task and generation",
        java_owner_ignored,
        71,
    ),
    Bug("an endpoint is missing in the host maps", "the group comes to rest", endpoint_left_out),
    Bug("only the trailer announces a follow-up", "the group comes to rest", only_trailers_announce, 138),
    Bug(
        "a drain waits for a leader that reads of it",
        "the group comes to rest",
        lambda patch: patch.setattr(membership.engine, "Membership", StubbornMembership),
        30,
    ),
    Bug(
        "a mixed group gets the decision of our assignor",
        "decisions equal on whichever member leads",
        own_assignor_kept,
    ),
    Bug(
        "promises count in Java's decision",
        "decisions equal on whichever member leads",
        promises_in_javas_decision,
        1_680,
    ),
    Bug(
        "a replica is asked for again that has caught up before",
        "early requests end",
        lambda patch: patch.setattr(early.engine, "Early", ForgetfulEarly),
        520,
    ),
)
