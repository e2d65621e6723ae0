"""Stores of Java's that are not ours to restore: windowed, session, versioned and those with buffers of the DSL, told by what shows.

What lives here: pure rules on names and on the settings of changelogs. What must not: brokers. Nothing on the wire says what kind a store is;
a changelog's settings do, as Java gives each kind its own (Kafka: ``WindowedChangelogTopicConfig``, ``VersionedChangelogTopicConfig``), and the
names that its DSL makes up. A store with headers (KIP-1271) shows in neither, but in its changelog's records: all other kinds write theirs
without any (KIP-244).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TopologyShape

SUPPORTED_KINDS: Mapping[str, bool] = {"key_value": False, "timestamped_key_value": True}
"""A store's ``type`` in a file -> whether it keeps timestamps."""

UNSUPPORTED_KINDS = ("windowed", "timestamped_windowed", "session", "versioned_key_value", "key_value_with_headers")

_WINDOWS = "a window store of a join"
_NAMES: Mapping[str, str] = {
    "KSTREAM-JOINTHIS-": _WINDOWS,
    "KSTREAM-JOINOTHER-": _WINDOWS,
    "KSTREAM-OUTERTHIS-": _WINDOWS,
    "KSTREAM-OUTEROTHER-": _WINDOWS,
    "KSTREAM-OUTERSHARED-": "the list of a join's records without a partner",
    "KTABLE-SUPPRESS-STATE-STORE-": "the buffer of a suppression",
}
"""How the names begin that Java's DSL gives to stores -> what they are."""

POLICY, LAG = "cleanup.policy", "min.compaction.lag.ms"
CONSISTENCY_HEADERS = frozenset({"v", "c"})
"""What any kind of Java's writes where reads have to be consistent (Kafka: ``ChangelogRecordDeserializationHelper``)."""
_SHARED = "Only key-value stores, plain or timestamped, can be shared with Java"


def timestamped_kind(key: str, kind: object) -> bool:
    """Whether a store of this ``type`` keeps timestamps. Raises ``ConfigError`` for what is not supported, or unknown."""
    if isinstance(kind, str) and kind in SUPPORTED_KINDS:
        return SUPPORTED_KINDS[kind]
    says = "is not supported yet; supported are" if kind in UNSUPPORTED_KINDS else "must be one of"
    raise ConfigError(f"{key} = {kind!r}: {says} {', '.join(SUPPORTED_KINDS)}")


def refuse_foreign_stores(
    shape: TopologyShape, application_id: str, settings: Mapping[str, Mapping[str, str | None]]
) -> None:
    """Raises ``ConfigError`` naming each store that Java keeps in another form. ``settings``: topic -> what was set for it alone."""
    reasons = {
        store.name: reason
        for sub in shape.subtopologies
        for store in sub.stores
        if (reason := _by_name(store.name))
        or (
            store.logged
            and not store.source
            and (
                reason := _by_settings(
                    store.changelog(application_id), settings.get(store.changelog(application_id), {})
                )
            )
        )
    }
    if reasons:
        told = "; ".join(f"store {name!r}: {reason}" for name, reason in sorted(reasons.items()))
        raise ConfigError(f"topology: {told}. {_SHARED}")


def refuse_headers(topic: str, store: str, names: Collection[str]) -> None:
    """Raises ``ConfigError`` naming the store where records of its changelog have headers of these names."""
    if strange := sorted({*names} - CONSISTENCY_HEADERS):
        raise ConfigError(
            f"topology: store {store!r}: {topic} has records with headers ({', '.join(strange)}), as changelogs of stores with headers "
            f"have; they would be lost. {_SHARED} (if its producers add them to all that they write, as for tracing: "
            f"set drop_headers for this store)"
        )


def _by_name(store: str) -> str:
    return next((f"by its name {what} of Java's DSL" for start, what in _NAMES.items() if store.startswith(start)), "")


def _by_settings(topic: str, own: Mapping[str, str | None]) -> str:
    policy, lag_ms = own.get(POLICY) or "", int(own.get(LAG) or 0)
    if {"compact", "delete"} <= set(policy.replace(" ", "").split(",")):
        return (
            f"{topic} has {POLICY} = {policy}, as changelogs of windowed and session stores have "
            f"(if it is of a key-value store, set it to compact)"
        )
    if lag_ms > 0:
        return (
            f"{topic} has {LAG} = {lag_ms}, as changelogs of versioned stores have "
            f"(if it is of a key-value store, set it to 0)"
        )
    return ""
