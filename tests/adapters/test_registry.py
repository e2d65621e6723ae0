"""Serdes of a schema registry: confluent-kafka's serializers against a stub of the registry's HTTP contract."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kstreams_assign import (
    Batch,
    ConfigError,
    ExtraMissing,
    RegistryError,
    Serde,
    SerializationError,
    Subtopology,
    Task,
    TopologyTestDriver,
    registry_serde,
)
from tests.adapters.registry_stub import FIRST_ID, RegistryStub, registry_stub

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Payment",
        "fields": [{"name": "account", "type": "string"}, {"name": "amount", "type": "long"}],
    }
)
SCHEMA = json.dumps(
    {
        "title": "Payment",
        "type": "object",
        "properties": {"account": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["account", "amount"],
    }
)
PAYMENT = {"account": "ann", "amount": 5}


def message_class() -> Any:
    """Make the class that protoc would generate for ``message Payment { string account = 1; int64 amount = 2; }``."""
    file = descriptor_pb2.FileDescriptorProto(name="payment.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Payment")
    for number, (name, kind) in enumerate({"account": "STRING", "amount": "INT64"}.items(), 1):
        field = descriptor_pb2.FieldDescriptorProto
        message.field.add(
            name=name, number=number, type=getattr(field, f"TYPE_{kind}"), label=field.LABEL_OPTIONAL, json_name=name
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Payment"))


@dataclass
class Format:
    """One kind of schema: its serde, a value, and a value of another shape."""

    name: str
    serde: Callable[[SchemaRegistryClient], Serde[Any]]
    value: Any
    wrong: Any


MESSAGE = message_class()
FORMATS = [
    Format(
        "Avro",
        lambda client: registry_serde(AvroSerializer(client, AVRO), AvroDeserializer(client)),
        PAYMENT,
        {"account": "ann", "amount": "five"},
    ),
    Format(
        "JSON",
        lambda client: registry_serde(JSONSerializer(SCHEMA, client), JSONDeserializer(SCHEMA)),
        PAYMENT,
        {"account": "ann", "amount": "five"},
    ),
    Format(
        "Protobuf",
        lambda client: registry_serde(ProtobufSerializer(MESSAGE, client), ProtobufDeserializer(MESSAGE)),
        MESSAGE(account="ann", amount=5),
        PAYMENT,
    ),
]
each_format = pytest.mark.parametrize("kind", FORMATS, ids=[each.name for each in FORMATS])


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as made:
        yield made


@pytest.fixture
def client(stub: RegistryStub) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": stub.url, "max.retries": 0}) as made:
        yield made


@each_format
def test_what_is_written_is_read_again_and_the_subject_is_the_topics(
    stub: RegistryStub, client: SchemaRegistryClient, kind: Format
) -> None:
    serde = kind.serde(client).for_topic("payments", "value")
    data = serde.serialize(kind.value)
    assert struct.unpack_from(">bi", data) == (0, FIRST_ID)
    assert serde.deserialize(data) == kind.value
    kind.serde(client).for_topic("payments", "key").serialize(kind.value)
    assert stub.subjects.keys() == {"payments-value", "payments-key"}


def add(serde: Serde[Any]) -> list[Subtopology]:
    def process(task: Task, payments: Batch) -> None:
        newest, out = task.store("newest", key=str, value=serde), task.sink("out", key=str, value=serde)
        for account, payment in payments.pairs(key=str, value=serde):
            assert account is not None
            newest.put(account, payment)
            assert newest.get(account) == payment
            out.emit(account, payment)

    return [Subtopology(process, sources=["in"], stores=["newest"], sinks=["out"], on_error="skip")]


@each_format
def test_an_application_reads_stores_and_emits_under_a_subject_for_each_topic(
    stub: RegistryStub, client: SchemaRegistryClient, kind: Format
) -> None:
    serde = kind.serde(client)
    with TopologyTestDriver(add(serde), application_id="app") as driver:
        driver.input_topic("in", key=str, value=serde).pipe("ann", kind.value)
        assert driver.output_topic("out", key=str, value=serde).read() == [("ann", kind.value)]
        assert driver.store("newest", key=str, value=serde).get("ann") == kind.value
    assert stub.subjects.keys() == {"in-value", "app-newest-changelog-value", "out-value"}


@each_format
@pytest.mark.parametrize("data", [b"", b"five", b"\x07\x00\x00\x00\x64abc", b"\x00\x00\x00\x00\x64\xff\xff\xff\xff"])
def test_bytes_of_no_registry_are_a_fault_of_the_record(
    client: SchemaRegistryClient, kind: Format, data: bytes
) -> None:
    serde = kind.serde(client)
    serde.for_topic("in", "value").serialize(kind.value)
    with pytest.raises(serde.faults):
        serde.for_topic("in", "value").deserialize(data)


def test_records_that_name_an_unknown_schema_are_set_aside_and_the_others_processed(
    client: SchemaRegistryClient,
) -> None:
    serde = FORMATS[0].serde(client)
    unknown = struct.pack(">bi", 0, FIRST_ID + 77) + b"payload"
    errors: list[Exception] = []
    (subtopology,) = add(serde)
    remembering = Subtopology(
        subtopology.process,
        sources=["in"],
        stores=["newest"],
        sinks=["out"],
        on_error=lambda _record, error: errors.append(error) or "skip",
    )
    good = serde.for_topic("in", "value").serialize(PAYMENT)
    with TopologyTestDriver([remembering]) as driver:
        driver.pipe_many("in", [(b"ann", good), (b"bob", unknown), (b"cid", good)])
        assert [key for key, _ in driver.output_topic("out", key=str, value=serde).read()] == ["ann", "cid"]
    (error,) = errors
    assert isinstance(error, SerializationError)
    text = "in-0 at offset 1: the value cannot be read as Avro of a schema registry: 12 bytes"
    assert str(error).startswith(text)
    assert "Schema 177 not found" in str(error)


@each_format
def test_a_value_of_another_shape_is_refused(client: SchemaRegistryClient, kind: Format) -> None:
    serde = kind.serde(client)
    with pytest.raises(serde.faults):
        serde.for_topic("in", "value").serialize(kind.wrong)


def test_a_message_without_a_required_field_is_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto2")
    message = file.message_type.add(name="Order")
    field = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="amount", number=1, type=field.TYPE_INT64, label=field.LABEL_REQUIRED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))()
    serde = registry_serde(lambda value, _context: value.SerializeToString(), None).for_topic("in", "value")
    with pytest.raises(serde.faults, match="amount"):
        serde.serialize(order)


@pytest.mark.parametrize(
    "refusal",
    [
        (401, 40101, "User cannot access the resource"),
        (409, 409, "Schema being registered is incompatible"),
        (404, 40401, "Subject not found"),
        (500, 50001, "Error in the backend data store"),
        (503, -1, "down for maintenance"),
    ],
)
def test_a_registry_that_refuses_ends_the_worker_and_sets_nothing_aside(
    stub: RegistryStub, client: SchemaRegistryClient, refusal: tuple[int, int, str]
) -> None:
    serde = FORMATS[0].serde(client)
    data = serde.for_topic("elsewhere", "value").serialize(PAYMENT)
    stub.refusal = refusal
    with TopologyTestDriver(add(serde)) as driver:  # with on_error="skip"
        with pytest.raises(RegistryError, match=f"value of in: {refusal[2]}"):
            FORMATS[0].serde(client).for_topic("in", "value").serialize(PAYMENT)
        with pytest.raises(RegistryError, match=refusal[2]):
            driver.pipe("in", b"ann", data)


def test_a_registry_that_cannot_be_reached_ends_the_worker(client: SchemaRegistryClient) -> None:
    with registry_stub() as gone:
        url = gone.url
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as nowhere:
        serde = FORMATS[0].serde(nowhere)
        with pytest.raises(RegistryError, match="schema registry, value of in: no answer: ConnectError"):
            serde.for_topic("in", "value").serialize(PAYMENT)
        with (
            TopologyTestDriver(add(serde)) as driver,
            pytest.raises(RegistryError, match="no answer"),
        ):
            driver.pipe("in", b"ann", FORMATS[0].serde(client).for_topic("in", "value").serialize(PAYMENT))


def test_a_serde_of_one_direction_needs_one_function(client: SchemaRegistryClient) -> None:
    reads = registry_serde(deserializer=AvroDeserializer(client)).for_topic("in", "value")
    writes = registry_serde(AvroSerializer(client, AVRO)).for_topic("in", "value")
    assert reads.deserialize(writes.serialize(PAYMENT)) == PAYMENT
    with pytest.raises(ConfigError, match="serializer is missing"):
        reads.serialize(PAYMENT)
    with pytest.raises(ConfigError, match="deserializer is missing"):
        writes.deserialize(b"")


def test_a_serde_is_used_with_a_topic(client: SchemaRegistryClient) -> None:
    serde = FORMATS[0].serde(client)
    with pytest.raises(ConfigError, match=r"needs a topic: call serde\.for_topic"):
        serde.serialize(PAYMENT)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"serializer = 'avro': must be one of confluent_kafka.schema_registry"):
        registry_serde("avro")  # type: ignore[arg-type]


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ExtraMissing, match=r"httpx2 is not installed; it belongs to the extra 'registry'"):
        registry_serde()
