"""Who joins in a rebalance is known from the record of the group: without one all do; if it is refused, none is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kstreams_assign.adapters.kafka_python.groups import DescribedGroup, DescribedMember
from kstreams_assign.errors import BrokerError
from kstreams_assign.insight import fetch

MEMBERS = tuple(DescribedMember(f"m-{n}", f"client-{n}", f"/10.0.0.{n}", None, b"", b"") for n in (1, 2))


class Describer:
    def describe(self, group: str) -> DescribedGroup:
        return DescribedGroup(group, "PreparingRebalance", "consumer", "stream", MEMBERS)

    def types(self) -> Mapping[str, str]:
        return {}

    def committed_offsets(self, _group: str) -> Mapping[object, int]:
        return {}

    def committed_metadata(self, _group: str, _partitions: object) -> Mapping[object, str]:
        return {}


class Admin:
    def topics(self, _timeout_s: float) -> Mapping[str, int]:
        return {}

    def bounds(self, _partitions: object, _timeout_s: float) -> Mapping[object, object]:
        return {}


def refuse(*_asked: object) -> None:
    raise BrokerError("TOPIC_AUTHORIZATION_FAILED: __consumer_offsets")


def find_nothing(*_asked: object) -> None: ...


@pytest.mark.parametrize(("read", "joining"), [(refuse, ()), (find_nothing, MEMBERS)])
def test_members_join_only_where_the_last_generation_is_known(
    monkeypatch: pytest.MonkeyPatch, read: Callable[..., None], joining: tuple[DescribedMember, ...]
) -> None:
    monkeypatch.setattr(fetch, "last_group_record", read)
    monkeypatch.setattr(fetch, "SETTLE_S", 0)
    reader = fetch.GroupReader(Describer(), Admin(), "b:1", {}, 1.0)  # type: ignore[arg-type]
    assert [each.member_id for each in reader.snapshot("app").joining] == [each.member_id for each in joining]
