"""Serdes of a schema registry, from confluent-kafka's own serializers for Avro, JSON Schema and Protobuf.

What lives here: the serde, and the table from their errors to ours. What must not: schemas, subjects and HTTP, which
are confluent-kafka's. Needs the extra ``registry``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from confluent_kafka.serialization import MessageField, SerializationContext
from confluent_kafka.serialization import SerializationError as ConfluentRefusal

from kstreams_assign.errors import ConfigError, RegistryError, missing_extra
from kstreams_assign.serdes.serde import CODING_FAULTS, Field, Serde

Coding = Callable[[Any, SerializationContext], Any]

SCHEMA_ID_NOT_FOUND = 40403
"""The registry knows no schema of the id in the bytes: another registry's, or no id at all."""


class UnknownSchema(Exception):
    """Bytes name a schema that the registry does not have; a fault of the record."""


def registry_serde(serializer: Coding | None = None, deserializer: Coding | None = None) -> Serde[Any]:
    """Make a serde of confluent-kafka's serializer and deserializer, such as ``AvroSerializer``.

    Subjects are named after the topic as the serializer is configured: of a store it is the changelog, as in Java. A
    serde that only reads or only writes needs only one of the two. Bytes that cannot be read, or whose schema the
    registry does not know, raise ``SerializationError``; a registry that refuses or does not answer raises
    ``RegistryError``, which sets no record aside. Raises ``ConfigError`` for an argument that cannot be called, and
    ``ExtraMissing`` without the extra ``registry``.
    """
    for argument, given in (("serializer", serializer), ("deserializer", deserializer)):
        if given is not None and not callable(given):
            raise ConfigError(f"{argument} = {given!r}: must be one of confluent_kafka.schema_registry, or None")
    refusals = _Refusals()
    name = type(deserializer or serializer).__name__.removesuffix("Deserializer").removesuffix("Serializer")

    def bind(topic: str, field: Field) -> Serde[Any]:
        context = SerializationContext(topic, MessageField.KEY if field == "key" else MessageField.VALUE)
        return Serde(
            described,
            _missing("serializer") if serializer is None else refusals.translating(serializer, context, topic),
            _missing("deserializer") if deserializer is None else refusals.translating(deserializer, context, topic),
            refusals.of_records,
        )

    described = f"{name} of a schema registry"
    return Serde(described, _unbound, _unbound, refusals.of_records, bind)


class _Refusals:
    """What confluent-kafka and its packages raise, as ours. Raises ``ExtraMissing``."""

    def __init__(self) -> None:
        try:
            import httpx2
            from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
        except ModuleNotFoundError as missing:
            raise missing_extra(missing) or missing from None
        self._refused: type[Any] = SchemaRegistryError
        self._unreachable: tuple[type[Exception], ...] = (httpx2.HTTPError, OAuthTokenError)
        self.of_records = (*CODING_FAULTS, ConfluentRefusal, UnknownSchema, *_fastavro_faults(), *_protobuf_faults())
        """Those for which the value or the bytes are to blame."""

    def translating(self, coding: Coding, context: SerializationContext, topic: str) -> Callable[[Any], Any]:
        """Return the function of one argument. It raises ``RegistryError`` where the record is not to blame."""

        def code(value: Any) -> Any:
            try:
                return coding(value, context)
            except self._refused as refused:
                if refused.error_code == SCHEMA_ID_NOT_FOUND:
                    raise UnknownSchema(str(refused)) from refused
                raise RegistryError(f"schema registry, {context.field} of {topic}: {refused}") from refused
            except self._unreachable as cause:
                raise RegistryError(
                    f"schema registry, {context.field} of {topic}: no answer: {type(cause).__name__}: {cause}"
                ) from cause

        return code


def _fastavro_faults() -> tuple[type[Exception], ...]:
    from fastavro.read import SchemaResolutionError
    from fastavro.schema import SchemaParseException, UnknownType
    from fastavro.validation import ValidationError

    return SchemaParseException, SchemaResolutionError, UnknownType, ValidationError


def _protobuf_faults() -> tuple[type[Exception], ...]:
    try:
        from google.protobuf.message import Error  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        return ()
    return (Error,)


def _missing(argument: str) -> Callable[[Any], NoReturn]:
    def refuse(_value: object) -> NoReturn:
        raise ConfigError(f"registry_serde: {argument} is missing: pass the {argument} of confluent_kafka too")

    return refuse


def _unbound(_value: object) -> NoReturn:
    raise ConfigError("a serde of a schema registry needs a topic: call serde.for_topic(topic, 'key' or 'value') first")
