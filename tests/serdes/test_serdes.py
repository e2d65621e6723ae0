"""Serdes: what is written is read again, what cannot be coded is refused, and a type stands for its serde."""

from __future__ import annotations

import json
import math
import typing
import uuid
from collections import OrderedDict
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign import ConfigError, Serde, Serdes
from kstreams_assign.serdes.named import serde_of

if TYPE_CHECKING:
    from decimal import Decimal

INT64 = st.integers(-(2**63), 2**63 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | st.booleans() | INT64 | FINITE | st.text()
SHAPES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": INT64,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "bytes": st.binary(),
    "json": SHAPES,
    "msgpack": SHAPES,
}


@dataclass
class Line:
    article: str
    price: float
    count: int = 1


@dataclass
class Order:
    customer: str
    lines: list[Line]
    paid: bool = False
    note: str | None = None
    gift: Line | None = None
    labels: dict[str, int] = field(default_factory=dict)
    more: Any = None


@dataclass
class Node:
    name: str
    below: list[Node] = field(default_factory=list)


@pytest.mark.parametrize("name", VALUES)
def test_what_is_written_is_read_again(name: str) -> None:
    serde = getattr(Serdes, name)

    @given(VALUES[name])
    def round_trip(value: object) -> None:
        data = serde.serialize(value)
        assert type(data) is bytes
        read = serde.deserialize(data)
        assert read == value
        assert type(read) is type(value)

    round_trip()


@pytest.mark.parametrize("name", ["string", "uuid", "boolean", "short", "integer", "long", "double", "json", "msgpack"])
def test_any_bytes_are_read_or_refused_with_one_of_the_faults(name: str) -> None:
    serde = getattr(Serdes, name)

    @given(st.binary(max_size=40))
    def read(data: bytes) -> None:
        try:
            value = serde.deserialize(data)
        except serde.faults:
            return
        assert value is not None or name in {"json", "msgpack"}

    read()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("string", 5),
        ("string", "\ud800"),
        ("short", 2**15),
        ("integer", 2**31),
        ("long", 2**63),
        ("long", "5"),
        ("long", 5.0),
        ("float", 1e39),
        ("double", "5"),
        ("boolean", 1),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
        ("void", b""),
        ("json", {5: "a key that is no text"}),
        ("json", 2**64),
        ("json", object()),
        ("msgpack", object()),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    serde = getattr(Serdes, name)
    with pytest.raises(serde.faults):
        serde.serialize(value)


@pytest.mark.parametrize("text", ["{123e4567-e89b-12d3-a456-426614174000}", "123e4567e89b12d3a456426614174000", "1-1"])
def test_a_uuid_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="form"):
        Serdes.uuid.deserialize(text.encode())


@given(st.dictionaries(st.text(), PLAIN))
def test_equal_values_are_equal_bytes_of_json(value: dict[str, Any]) -> None:
    assert Serdes.json.serialize(OrderedDict(reversed(value.items()))) == Serdes.json.serialize(value)


@given(
    st.text(), st.lists(st.tuples(st.text(), st.floats(allow_nan=False, allow_infinity=False), INT64)), st.booleans()
)
def test_a_dataclass_is_read_as_it_was_written(customer: str, lines: list[tuple[str, float, int]], paid: bool) -> None:
    serde = Serdes.dataclass(Order)
    order = Order(customer, [Line(*line) for line in lines], paid, gift=Line("none", 0.0), labels={"a": 1}, more=[1])
    assert serde.deserialize(serde.serialize(order)) == order


@dataclass(frozen=True)
class Point:
    y: float
    x: float

    @cached_property
    def all(self) -> set[float]:
        return {self.x, self.y}


@dataclass(frozen=True, slots=True)
class Slotted:
    y: float
    x: float


@dataclass(frozen=True)
class Shape:
    first: Point
    named: dict[str, Point | None]
    listed: list[list[Point]]
    sizes: list[float] | None = None
    other: Slotted | None = None


def test_what_a_dataclass_remembers_beside_its_fields_is_not_written() -> None:
    serde, points = Serdes.dataclass(Shape), [Point(1.5, 2.5) for _ in range(3)]
    shape = Shape(points[0], {"b": points[1], "a": None}, [[points[2]]])
    before = serde.serialize(shape)
    assert all(point.all for point in points)
    assert serde.serialize(shape) == before
    assert before == (
        b'{"first":{"y":1.5,"x":2.5},"named":{"a":null,"b":{"y":1.5,"x":2.5}},"listed":[[{"y":1.5,"x":2.5}]],'
        b'"sizes":null,"other":null}'
    )
    assert serde.deserialize(before) == shape


@dataclass(frozen=True)
class Place:
    """It has no field that JSON writes in two ways."""

    city: str
    street: str | None = None

    @cached_property
    def initial(self) -> str:
        return self.city[0]


@dataclass(frozen=True, slots=True)
class SlottedPlace:
    city: str
    street: str | None = None


def test_a_dataclass_of_texts_is_written_by_its_fields_too() -> None:
    place, slotted = Place("Rom"), SlottedPlace("Rom")
    before = Serdes.dataclass(Place).serialize(place)
    assert place.initial == "R"
    assert Serdes.dataclass(Place).serialize(place) == before == b'{"city":"Rom","street":null}'
    assert Serdes.dataclass(SlottedPlace).serialize(slotted) == before


@dataclass(frozen=True)
class Street(SlottedPlace):
    """Its base has slots, and its objects have a ``__dict__`` beside them."""

    number: int = 1

    @cached_property
    def shown(self) -> str:
        return f"{self.street} {self.number}"


@dataclass
class Houses:
    streets: list[Street]
    main: Street | None = None


def test_fields_in_slots_of_a_base_are_written_too() -> None:
    serde, street = Serdes.dataclass(Street), Street("Rom", "Via Appia", 2)
    before = serde.serialize(street)
    assert before == b'{"city":"Rom","street":"Via Appia","number":2}'
    assert serde.deserialize(before) == street
    assert street.shown == "Via Appia 2"
    assert serde.serialize(street) == before
    houses = Houses([street], street)
    assert Serdes.dataclass(Houses).deserialize(Serdes.dataclass(Houses).serialize(houses)) == houses


def test_equal_dataclasses_are_equal_bytes() -> None:
    numbers: list[tuple[Any, Any]] = [(1, 0), (1.0, 0.0), (1.0, -0.0)]
    shapes = [Shape(Point(y, x), {"a": Point(y, x)}, [[Point(y, x)]], [y, x], Slotted(y, x)) for y, x in numbers]
    assert shapes[0] == shapes[1] == shapes[2]
    assert len({Serdes.dataclass(Shape).serialize(shape) for shape in shapes}) == 1


def test_a_dataclass_may_hold_itself() -> None:
    serde = Serdes.dataclass(Node)
    tree = Node("root", [Node("leaf"), Node("branch", [Node("leaf")])])
    assert serde.deserialize(serde.serialize(tree)) == tree


def test_unknown_members_are_left_out_and_missing_ones_have_their_defaults() -> None:
    read = Serdes.dataclass(Order).deserialize(b'{"customer": "ann", "lines": [], "since": 2020}')
    assert read == Order("ann", [])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"customer": 5}, "customer: must be str, not 5"),
        ({"customer": None}, "customer: must be str, not None"),
        ({"paid": 1}, "paid: must be bool, not 1"),
        ({"lines": {}}, "lines: must be list"),
        ({"lines": [{"article": "a", "price": "x"}]}, "lines: price: must be a number, not 'x'"),
        ({"lines": [{"article": "a", "price": True}]}, "price: must be a number"),
        ({"lines": [{"article": "a"}]}, "lines: price: missing"),
        ({"lines": ["a"]}, "must be an object, for Line"),
        ({"labels": {"a": "b"}}, "labels: must be int, not 'b'"),
        ({"labels": []}, "labels: must be dict"),
        ({"gift": []}, "gift: must be an object"),
    ],
)
def test_a_member_of_another_type_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    data = json.dumps({"customer": "ann", "lines": []} | change).encode()
    with pytest.raises((TypeError, ValueError), match=named):
        Serdes.dataclass(Order).deserialize(data)


def test_a_whole_number_is_read_as_a_float_where_one_is_declared() -> None:
    line = Serdes.dataclass(Line).deserialize(b'{"article": "a", "price": 5}')
    assert (line.price, type(line.price)) == (5.0, float)


@dataclass
class Timed:
    at: datetime


@dataclass
class Hidden:
    _secret: str


@dataclass
class Keyed:
    by_number: dict[int, str]


@dataclass
class Counted:
    count: int = field(init=False, default=0)


@dataclass
class Either:
    value: int | str


@dataclass
class Halved:
    value: dict[str]  # type: ignore[type-arg]


@dataclass
class Scaled:
    size: float
    scale: InitVar[float]

    def __post_init__(self, scale: float) -> None:
        self.size *= scale


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Timed, "Timed.at is datetime: JSON has no such type"),
        (Hidden, "Hidden._secret: must be an argument of the class, without an underscore"),
        (Keyed, "Keyed.by_number"),
        (Counted, "Counted.count: must be an argument"),
        (Either, "Either.value"),
        (Halved, "Halved.value is dict: JSON has no such type"),
        (Scaled, "Scaled.scale: an InitVar without a default is in no JSON"),
        (int, "is not a dataclass"),
    ],
)
def test_a_class_that_json_cannot_hold_is_refused_when_the_serde_is_made(kind: type, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Serdes.dataclass(kind)


@dataclass
class Rescaled:
    size: float
    scale: InitVar[float] = 1.0

    def __post_init__(self, scale: float) -> None:
        self.size *= scale


def test_an_init_var_has_its_default_when_an_object_is_read() -> None:
    serde = Serdes.dataclass(Rescaled)
    assert serde.deserialize(serde.serialize(Rescaled(2.0, 3.0))) == Rescaled(6.0)


@dataclass
class Bare:
    """With the names that lists and dicts have in ``typing``, and no types of what is in them."""

    items: typing.List  # type: ignore[type-arg]  # noqa: UP006
    named: typing.Dict  # type: ignore[type-arg]  # noqa: UP006
    perhaps: typing.Optional[typing.List] = None  # type: ignore[type-arg]  # noqa: UP006, UP045


@pytest.mark.parametrize("bare", [Bare([1, "a"], {"b": None}, [[]]), Bare([], {})])
def test_bare_lists_and_dicts_hold_anything(bare: Bare) -> None:
    serde = Serdes.dataclass(Bare)
    assert serde.deserialize(serde.serialize(bare)) == bare
    with pytest.raises(TypeError, match=r"items: must be list, not \{\}"):
        serde.deserialize(b'{"items": {}, "named": {}}')


def local_classes() -> type:
    @dataclass
    class Inner:
        number: int

    @dataclass
    class Outer:
        inner: Inner

    return Outer


@dataclass
class Imported:
    amount: Decimal
    inner: Line


@dataclass
class Misspelt:
    at: uuid.UUDI  # type: ignore[name-defined]


@dataclass
class Around:
    inner: Imported


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (local_classes(), "Outer: the type of a field cannot be found: name 'Inner' is not defined; import or define"),
        (Imported, "Imported: the type of a field cannot be found: name 'Decimal' is not defined; import or define"),
        (Around, "Imported: the type of a field cannot be found: name 'Decimal' is not defined; import or define"),
        (Misspelt, "Misspelt: the type of a field cannot be found: .*UUDI"),
    ],
)
def test_a_class_with_a_type_that_cannot_be_found_is_refused_when_the_serde_is_made(kind: type, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Serdes.dataclass(kind)


def test_an_object_of_another_class_is_refused() -> None:
    with pytest.raises(TypeError, match="must be Order"):
        Serdes.dataclass(Order).serialize(Line("a", 1.0))  # type: ignore[arg-type]


def test_a_type_stands_for_its_serde() -> None:
    pairs: list[tuple[Any, Serde[Any]]] = [
        (str, Serdes.string),
        (int, Serdes.long),
        (float, Serdes.double),
        (bytes, Serdes.bytes),
        (bool, Serdes.boolean),
        (UUID, Serdes.uuid),
        (Order, Serdes.dataclass(Order)),
        (Serdes.msgpack, Serdes.msgpack),
    ]
    assert [serde_of("key", given_type) for given_type, _ in pairs] == [serde for _, serde in pairs]


@pytest.mark.parametrize("given_type", [None, dict, "str", 5, object])
def test_what_is_no_serde_is_refused_with_what_is_allowed(given_type: Any) -> None:
    with pytest.raises(ConfigError, match=r"value = .*: must be str, int, float, bytes, bool, UUID, a dataclass, or a"):
        serde_of("value", given_type)


def test_the_order_of_longs_is_that_of_their_bytes_so_negative_ones_are_last() -> None:
    numbers = [-2, -1, 0, 1, 2**40]
    assert sorted(numbers, key=Serdes.long.serialize) == [0, 1, 2**40, -2, -1]


def test_a_serde_without_a_topic_is_the_same_for_every_topic() -> None:
    assert Serdes.long.for_topic("orders", "key") is Serdes.long
    bound = Serde("a", str.encode, bytes.decode, bind=lambda topic, part: Serde(topic + part, str.encode, bytes.decode))
    assert bound.for_topic("orders", "key").name == "orderskey"


def test_one_nan_is_written_as_java_does() -> None:
    assert Serdes.double.serialize(math.copysign(math.nan, -1)).hex() == "7ff8000000000000"
