"""Values that only the type checker freezes: in everything else they are as the standard library's."""

from __future__ import annotations

import dataclasses
import pickle

from kstreams_assign.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    number: int = 0


@dataclass(slots=True)
class Open:
    name: str


def test_a_frozen_value_is_equal_hashed_copied_and_pickled_by_its_fields() -> None:
    value = Frozen("a", 1)
    assert len({value, Frozen("a", 1), Frozen("a")}) == 2
    assert dataclasses.replace(value, number=0) == Frozen("a")
    assert pickle.loads(pickle.dumps(value)) == value
    assert repr(value) == "Frozen(name='a', number=1)"
    assert not hasattr(value, "__dict__")


def test_another_value_has_no_hash() -> None:
    assert Open.__hash__ is None
    assert Open("a") == Open("a")
