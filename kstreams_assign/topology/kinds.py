"""Recognise Java stores that cannot be shared: windowed, session and versioned stores, and buffers of the DSL.

Pure rules on store names and changelog settings; calls to a broker do not belong here. Nothing on the wire names a
store's kind. Its changelog's settings do, as Java gives each kind its own (Kafka: ``WindowedChangelogTopicConfig``,
``VersionedChangelogTopicConfig``), and so do the names that the DSL generates. A store with headers (KIP-1271), and the
buffer of a suppression that the application names, show only in the headers of the changelog's records (KIP-244).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TopologyShape

SUPPORTED_KINDS: Mapping[str, bool] = {"key_value": False, "timestamped_key_value": True}
"""A store's ``type`` in a file -> whether it keeps timestamps."""

UNSUPPORTED_KINDS = ("windowed", "timestamped_windowed", "session", "versioned_key_value", "key_value_with_headers")

_WINDOWS, _JOIN_BUFFER = "a window store of a join", "the buffer of a join with a table"
_SUPPRESSION = "the buffer of a suppression"
_NAMES: Mapping[str, str] = {
    "KSTREAM-JOINTHIS-": _WINDOWS,
    "KSTREAM-JOINOTHER-": _WINDOWS,
    "KSTREAM-OUTERTHIS-": _WINDOWS,
    "KSTREAM-OUTEROTHER-": _WINDOWS,
    "KSTREAM-OUTERSHARED-": "the list of a join's records without a partner",
    "KSTREAM-JOIN-": _JOIN_BUFFER,
    "KSTREAM-LEFTJOIN-": _JOIN_BUFFER,
    "KTABLE-SUPPRESS-STATE-STORE-": _SUPPRESSION,
}
"""Prefix of a store name that Java's DSL generates -> what the store is."""

POLICY, LAG = "cleanup.policy", "min.compaction.lag.ms"
VERSION, POSITION = "v", "c"
"""Headers that any Java store writes for consistent reads (Kafka: ``ChangelogRecordDeserializationHelper``)."""
CONSISTENCY = b"\0"
"""The version beside a position."""
BUFFER_FORMATS = (b"\1", b"\2", b"\3")
"""Versions that only buffers of suppressions have (Kafka: ``InMemoryTimeOrderedKeyValueChangeBuffer``)."""
_SHARED = "Only key-value stores, plain or timestamped, can be shared with Java"


def timestamped_kind(key: str, kind: object) -> bool:
    """Return whether a store of this ``type`` keeps timestamps. Raises ``ConfigError`` for any other type."""
    if isinstance(kind, str) and kind in SUPPORTED_KINDS:
        return SUPPORTED_KINDS[kind]
    says = "is not supported yet; supported are" if kind in UNSUPPORTED_KINDS else "must be one of"
    raise ConfigError(f"{key} = {kind!r}: {says} {', '.join(SUPPORTED_KINDS)}")


def refuse_foreign_stores(
    shape: TopologyShape, application_id: str, settings: Mapping[str, Mapping[str, str | None]]
) -> None:
    """Raise ``ConfigError``, naming each store, if Java keeps stores in a form that cannot be read here.

    ``settings``: topic -> the settings that override the broker's defaults.
    """
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
                    store.changelog(application_id),
                    settings.get(store.changelog(application_id), {}),
                    store.changelog_config,
                )
            )
        )
    }
    if reasons:
        listed = "; ".join(f"store {name!r}: {reason}" for name, reason in sorted(reasons.items()))
        raise ConfigError(f"topology: {listed}. {_SHARED}")


def refuse_headers(topic: str, store: str, headers: Collection[tuple[str, bytes | None]]) -> None:
    """Raise ``ConfigError``, naming the store, if its changelog has headers that would be lost or are of a buffer."""
    if version := next((value for name, value in headers if name == VERSION and value in BUFFER_FORMATS), None):
        raise ConfigError(
            f"topology: store {store!r}: {topic} has records with the header {VERSION} = {version!r}, as changelogs of "
            f"{_SUPPRESSION} have. {_SHARED}"
        )
    lost = {name for name, value in headers if name != POSITION and (name, value) != (VERSION, CONSISTENCY)}
    if lost:
        raise ConfigError(
            f"topology: store {store!r}: {topic} has records with headers ({', '.join(sorted(lost))}), as changelogs "
            f"of stores with headers have; they would be lost. {_SHARED} (if the producers add these headers to every "
            f"record, as for tracing: set drop_headers for this store)"
        )


def _by_name(store: str) -> str:
    return next((f"by its name {kind} of Java's DSL" for start, kind in _NAMES.items() if store.startswith(start)), "")


def _by_settings(topic: str, own: Mapping[str, str | None], declared: Collection[str]) -> str:
    policy, lag_ms = own.get(POLICY) or "", int(own.get(LAG) or 0)
    if {"compact", "delete"} <= set(policy.replace(" ", "").split(",")):
        return (
            f"{topic} has {POLICY} = {policy}, as changelogs of windowed and session stores have "
            f"(if the store is a key-value store, set {POLICY} to compact)"
        )
    if lag_ms > 0 and LAG not in declared:
        return (
            f"{topic} has {LAG} = {lag_ms}, as changelogs of versioned stores have "
            f"(if the store is a key-value store, set {LAG} to 0, or declare it in the store's changelog_config)"
        )
    return ""
