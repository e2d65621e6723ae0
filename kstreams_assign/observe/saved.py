"""What snapshots in files have in common: JSON that is read strictly, so that an error names file and field."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TopicPartition

Kind = TypeVar("Kind")


_KINDS: Mapping[type, str] = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object, read strictly: an error names a field that is missing or of another kind.

    ``name`` is the file's, ``within`` the path of the object in it.
    """

    name: str
    within: str
    content: Any

    @classmethod
    def of(cls, text: str, name: str, form: str, version: int) -> Self:
        """Return the object of a file of this format. Raises ``ConfigError``."""
        try:
            content = json.loads(text)
        except ValueError as wrong:
            raise ConfigError(f"{name} is not a group snapshot: {wrong}") from None
        fields = cls(name, "", content)
        there = fields.get("format", str), fields.get("version", int)
        if there != (form, version):
            raise ConfigError(f"{name} is {there[0]!r}, version {there[1]}; this release reads {form!r}, {version}")
        return fields

    def get(self, key: str, kind: type[Kind]) -> Kind:
        value = self.content.get(key) if isinstance(self.content, dict) else None
        if type(value) is not kind:
            raise self._wrong(key, f"must be {_KINDS[kind]}")
        return value

    def or_none(self, key: str, kind: type[Kind]) -> Kind | None:
        return None if isinstance(self.content, dict) and self.content.get(key) is None else self.get(key, kind)

    def has(self, key: str) -> bool:
        return isinstance(self.content, dict) and key in self.content

    def table(self, key: str, kind: type[Kind]) -> dict[str, Kind]:
        inner = Fields(self.name, f"{self.within}{key}.", self.get(key, dict))
        return {name: inner.get(name, kind) for name in inner.content}

    def read(self, key: str, how: Callable[[str], Kind]) -> Kind:
        try:
            return how(self.get(key, str))
        except ValueError as wrong:
            raise self._wrong(key, str(wrong)) from None

    def number(self, key: str, text: str) -> int:
        if not text.isdecimal():
            raise self._wrong(key, f"{text!r} is not a partition number")
        return int(text)

    def _wrong(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"{self.name} is a damaged group snapshot: {self.within}{key}: {why}")


def read_base64(text: str) -> bytes:
    return b64decode(text, validate=True)


def by_topic(values: Mapping[TopicPartition, Kind]) -> dict[str, dict[str, Kind]]:
    topics: dict[str, dict[str, Kind]] = {}
    for partition in sorted(values):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = values[partition]
    return topics


def partitions(fields: Fields, key: str, kind: type[Kind]) -> dict[TopicPartition, Kind]:
    topics = fields.table(key, dict)
    inner = {topic: Fields(fields.name, f"{key}.", topics) for topic in topics}
    return {
        TopicPartition(topic, fields.number(f"{key}.{topic}", partition)): value
        for topic, of_topic in inner.items()
        for partition, value in of_topic.table(topic, kind).items()
    }
