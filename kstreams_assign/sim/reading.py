"""What the members of a rebalance report, decoded once for the leader and all checkers that look at it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from kstreams_assign.group import view
from kstreams_assign.group.dialects import APACHE, Dialect
from kstreams_assign.group.values import JoinedMember


def read_group(members: Sequence[JoinedMember], dialect: Dialect = APACHE) -> view.GroupView:
    """Decode the members' bytes, as ``group.view.read_group`` does."""
    return _read(tuple(members), dialect)


@lru_cache(maxsize=4)
def _read(members: tuple[JoinedMember, ...], dialect: Dialect) -> view.GroupView:
    return view.read_group(members, dialect)
