"""What a task's database says about itself, in its default column family: layout, changelog offsets, ids of the topics.

::

    format            b"3"
    c<store>          the name of the column family that the store is in, of its own for each life of it
    k<store>          b"timestamped": that store's values begin with a timestamp (``tasks.stamped``)
    l<store>          the topic that is that store's changelog, from which it can be restored; a topic is of one store
    o<partition><topic>   next offset of that changelog, both numbers big endian (4 and 8 bytes)
    t<topic>          the id of the topic that those offsets are of

The index of a store whose entries expire (``tasks.expiry``) is a store, too, named after it.

A database whose MANIFEST lost its tail does not know its newest column families any more, and leaves out what the log
says of them; the default family comes back whole, offsets and all. So it names the others, and none of them ever has
the name of an earlier one.

Bytes only. What must not be here: a database.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kstreams_assign.adapters.store_faults import Translation
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.expiry import indexed_by

FORMAT_KEY, FORMAT = b"format", b"3"
TIMESTAMPED = b"timestamped"
_OFFSET_PREFIX, _IDENTITY_PREFIX, _KIND_PREFIX, _CHANGELOG_PREFIX, _FAMILY_PREFIX = b"o", b"t", b"k", b"l", b"c"
_PARTITION = struct.Struct(">I")
_OFFSET = struct.Struct(">Q")


@dataclass(slots=True)
class Held:
    """What the default family holds beside the data.

    ``timestamped`` stores have values that begin with a timestamp. ``changelogs``: the topic of each store that had a
    changelog when it was opened last.
    """

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    identities: dict[str, str] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    timestamped: set[str] = field(default_factory=set)
    changelogs: dict[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> set[str]:
        """The topics of which there is an offset or an id."""
        return {*(partition.topic for partition in self.offsets), *self.identities}

    def places(self, topics: Collection[str]) -> list[bytes]:
        """Where the offsets and ids of these topics stand."""
        offsets = [offset_key(partition) for partition in self.offsets if partition.topic in topics]
        return offsets + [identity_key(topic) for topic in self.identities if topic in topics]

    def known_changelogs(self, declared: Mapping[str, str]) -> Mapping[str, str]:
        """Return the topic that each store was restored from, as far as it is known.

        An earlier version noted no topics. In its databases a store has the topic it is ``declared`` with; an
        undeclared store has the topic with Kafka Streams' name for its changelog.
        """
        if self.changelogs:
            return self.changelogs
        others = self.topics.difference(declared.values())
        named = {store: topic for store in self.families for topic in others if topic.endswith(f"-{store}-changelog")}
        return {**named, **{store: topic for store, topic in declared.items() if store in self.families}}

    def valid_changelogs(self, declared: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
        """Return those of the noted changelogs whose offsets still describe the data of their stores.

        ``declared``: the changelogs of the task's stores. ``names``: the declared stores that belong in this database.
        The offset of a store whose changelog changed is not valid: the data is of another topic, or was written without
        a changelog. The offset of an undeclared store is not valid if a declared store has that changelog: a restore
        of the declared store would begin there, without the data.
        """
        taken = set(declared.values())
        return {
            store: topic
            for store, topic in self.changelogs.items()
            if (declared.get(store) == topic if store in names else topic not in taken)
        }

    def sharing_changelogs(self, stores: Collection[str]) -> set[str]:
        """Return the stores that are noted with the changelog of one of these, and these.

        Of two with one topic, which an earlier version noted, its offset may be of either's data.
        """
        topics = {topic for store, topic in self.changelogs.items() if store in stores}
        return {store for store, topic in self.changelogs.items() if topic in topics}

    def with_indexes(self, stores: Collection[str]) -> list[str]:
        """Return the stores of the database that are among these, or the index of one of these."""
        return [name for name in self.families if name in stores or indexed_by(name) in stores]

    def forget_topics(self, topics: Collection[str]) -> None:
        """Forget the offsets and ids of these topics."""
        for partition in [each for each in self.offsets if each.topic in topics]:
            del self.offsets[partition]
        for topic in self.identities.keys() & topics:
            del self.identities[topic]

    def forget_store(self, store: str) -> None:
        del self.families[store]
        self.timestamped.discard(store)
        self.changelogs.pop(store, None)


def offset_key(partition: TopicPartition) -> bytes:
    return _OFFSET_PREFIX + _PARTITION.pack(partition.partition) + partition.topic.encode()


def offset_value(offset: int) -> bytes:
    return _OFFSET.pack(offset)


def identity_key(topic: str) -> bytes:
    return _IDENTITY_PREFIX + topic.encode()


def kind_key(store: str) -> bytes:
    return _KIND_PREFIX + store.encode()


def changelog_key(store: str) -> bytes:
    return _CHANGELOG_PREFIX + store.encode()


def family_key(store: str) -> bytes:
    return _FAMILY_PREFIX + store.encode()


def held_in(entries: Iterable[tuple[bytes, bytes]], translation: Translation) -> Held:
    """Read the family. Raises ``StoreDamaged`` for another layout, and for what is none."""
    held = Held()
    for key, value in entries:
        if key == FORMAT_KEY and value != FORMAT:
            raise translation.damaged(f"has layout {value!r}; this version reads {FORMAT!r}")
        try:
            if key.startswith(_OFFSET_PREFIX):
                (number,) = _PARTITION.unpack_from(key, 1)
                (held.offsets[TopicPartition(key[5:].decode(), number)],) = _OFFSET.unpack(value)
            elif key.startswith(_IDENTITY_PREFIX):
                held.identities[key[1:].decode()] = value.decode()
            elif key.startswith(_KIND_PREFIX):
                held.timestamped.add(key[1:].decode())
            elif key.startswith(_CHANGELOG_PREFIX):
                held.changelogs[key[1:].decode()] = value.decode()
            elif key.startswith(_FAMILY_PREFIX):
                held.families[key[1:].decode()] = value.decode()
        except (struct.error, UnicodeDecodeError) as cause:
            raise translation.damaged(f"has an offset that is none: {key!r} = {value!r}") from cause
    return held
