"""Every setting, in one frozen value that is checked when it is made.

The keys are Kafka's own, dots written as underscores; ``Config.from_toml`` reads the same keys from a file. What must
not live here: defaults that depend on the machine, or a setting that only one demonstration needs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from kstreams_assign.client_settings import MemberTimes, refuse_settings
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import HostInfo

ASSIGNOR_NAMES = ("least_movement", "high_availability", "sticky", "fallback_prior", "learner")
GUARANTEES = ("at_least_once", "exactly_once_v2")
USER_DATA = ("apache", "kip441")
OFFSET_RESETS = ("earliest", "latest")
MEMBERSHIP_OPERATIONS = ("default", "leave_group", "remain_in_group")
RACK_AWARE_STRATEGIES = ("none", "min_traffic", "balance_subtopology")
TAGS_MAX, TAG_KEY_LENGTH_MAX, TAG_VALUE_LENGTH_MAX = 5, 20, 30
"""Kafka: ``MAX_RACK_AWARE_ASSIGNMENT_TAG_LIST_SIZE`` and its neighbours."""
TOKEN_CHARACTERS_MIN, TOKEN_CHARACTERS_MAX = 16, 255
"""Of ``socket_token``; a text of the sidecar's protocol has 255 characters at most."""


@dataclass(frozen=True, slots=True)
class _Range:
    least: int
    most: int | None = None

    def allows(self, value: int) -> bool:
        return self.least <= value and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        return f"a whole number >= {self.least}" + ("" if self.most is None else f" and <= {self.most}")


_RANGES: Mapping[str, _Range] = {
    "num_standby_replicas": _Range(0),
    "acceptable_recovery_lag": _Range(0),
    "max_warmup_replicas": _Range(1),
    "probing_rebalance_interval_ms": _Range(60_000),
    "early_probing_floor_ms": _Range(1_000),
    "state_cleanup_delay_ms": _Range(0),
    "state_cleanup_dir_max_age_ms": _Range(-1),
    "session_timeout_ms": _Range(1_000),
    "heartbeat_interval_ms": _Range(50),
    "max_poll_interval_ms": _Range(1_000),
    "max_poll_records": _Range(1),
    "max_poll_bytes": _Range(1),
    "commit_interval_ms": _Range(1),
    "buffered_records_max": _Range(1),
    "repartition_purge_interval_ms": _Range(0),
    "replication_factor": _Range(-1, 32_767),
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "assignor": ASSIGNOR_NAMES,
    "processing_guarantee": GUARANTEES,
    "auto_offset_reset": OFFSET_RESETS,
    "user_data": USER_DATA,
    "group_membership_operation": MEMBERSHIP_OPERATIONS,
    "rack_aware_assignment_strategy": RACK_AWARE_STRATEGIES,
}
_COSTS = ("rack_aware_assignment_traffic_cost", "rack_aware_assignment_non_overlap_cost")
_COST = _Range(0, 1_000_000)


def _address(key: str, text: object) -> HostInfo | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise ConfigError(f"{key} = {text!r}: must be HOST:PORT")
    return HostInfo(host, int(port))


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one member. Raises ``ConfigError`` naming the key, the value and what is allowed.

    Kafka's meaning and default where Kafka has the key (``StreamsConfig``); times are milliseconds.
    With ``early_probing`` the leader does not wait for the probing interval once tasks can change hands, but at least
    ``early_probing_floor_ms`` between two rebalances. With ``warmup_queue`` a member is told of all its warm-ups at once and
    restores ``max_warmup_replicas`` of them at a time; what is caught up stays, and one rebalance hands all of it over.
    ``process_name`` gives the process id: the same name, the same id, also on an empty volume; no two processes of a group may share
    one. Without it the id is drawn once and kept in ``state_dir``. ``state_cleanup_dir_max_age_ms``: state that was last at work longer ago is
    wiped at start (-1: never); it counts from the release or the last sign of life, where Kafka counts from the folder's modification.
    ``group_membership_operation`` says what becomes of the membership at close (Kafka: ``CloseOptions.GroupMembershipOperation``): by
    default a dynamic member leaves and a static one stays until its session ends.
    ``max_poll_records`` and ``max_poll_bytes`` bound a batch: its input records, and the bytes that it reads or writes.
    A batch that takes long makes the next batch smaller, down to a single record.
    ``repartition_purge_interval_ms``: how often consumed records of repartition topics are deleted.
    ``client_rack`` (Kafka: ``client.rack``) is where this member stands: it is told to the group, and records are fetched from a replica
    there if the brokers allow it. ``rack_aware_assignment_traffic_cost`` and ``..._non_overlap_cost`` left out are the assignor's own.
    ``http`` (HOST:PORT, port 0 takes a free port) serves health, metrics and the status page. ``client`` is for the
    Kafka clients (SASL, TLS, buffers), in librdkafka's dotted names: each setting reaches every client that it
    concerns, or is refused here.
    """

    application_id: str
    bootstrap_servers: str
    state_dir: str = "state"
    process_name: str | None = None
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    application_server: str | None = None
    group_instance_id: str | None = None
    group_membership_operation: str = "default"
    client_rack: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_assignment_strategy: str = "none"
    rack_aware_assignment_traffic_cost: int | None = None
    rack_aware_assignment_non_overlap_cost: int | None = None
    num_standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    probing_rebalance_interval_ms: int = 600_000
    warmup_queue: bool = False
    early_probing: bool = True
    early_probing_floor_ms: int = 10_000
    state_cleanup_delay_ms: int = 600_000
    state_cleanup_dir_max_age_ms: int = -1
    assignor: str = "least_movement"
    processing_guarantee: str = "at_least_once"
    user_data: Literal["apache", "kip441"] = "apache"
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 500
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 2_000
    max_poll_bytes: int = 16 << 20
    commit_interval_ms: int = 100
    buffered_records_max: int = 20_000
    repartition_purge_interval_ms: int = 30_000
    replication_factor: int = -1
    http: str | None = None
    socket: str | None = None
    socket_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        named = [key for key in ("process_name", "group_instance_id", "client_rack") if getattr(self, key) is not None]
        for key in ("application_id", "bootstrap_servers", "state_dir", *named):
            if not isinstance(getattr(self, key), str) or not getattr(self, key):
                raise ConfigError(f"{key} = {getattr(self, key)!r}: must be a text that is not empty")
        for key, allowed in _RANGES.items():
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int) or not allowed.allows(value):
                raise ConfigError(f"{key} = {value!r}: must be {allowed}")
        for key in ("early_probing", "warmup_queue"):
            if not isinstance(getattr(self, key), bool):
                raise ConfigError(f"{key} = {getattr(self, key)!r}: must be true or false")
        for key, choices in _CHOICES.items():
            if getattr(self, key) not in choices:
                raise ConfigError(f"{key} = {getattr(self, key)!r}: must be one of {', '.join(choices)}")
        self._check_shapes()
        self._check_racks()
        self._check_token()
        refuse_settings(self.client, MemberTimes(self.exactly_once, self.session_timeout_ms))
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms = {self.heartbeat_interval_ms}: must be at most a third of "
                f"session_timeout_ms = {self.session_timeout_ms}"
            )
        self.endpoint, self.http_address  # noqa: B018  # refuses a malformed address now, not when it is first used

    def _check_shapes(self) -> None:
        """Tables and lists of texts. What is in ``client`` is not shown, as it may be a password."""
        for key in ("client", "client_tags"):
            table = getattr(self, key)
            if not isinstance(table, Mapping):
                shown = f" = {table!r}" if key == "client_tags" else ""
                raise ConfigError(f"{key}{shown}: must be a table of texts")
            for name, value in table.items():
                if not isinstance(name, str) or not isinstance(value, str):
                    shown = f" = {value!r}" if key == "client_tags" else ""
                    raise ConfigError(f"{key}: {name}{shown}: must be a text, in quotes")
        tags = self.rack_aware_assignment_tags
        if not isinstance(tags, tuple | list) or not all(isinstance(tag, str) for tag in tags):
            raise ConfigError(f"rack_aware_assignment_tags = {tags!r}: must be a list of texts")

    def _check_token(self) -> None:
        token = self.socket_token
        if token is None:
            return
        if not isinstance(token, str) or not TOKEN_CHARACTERS_MIN <= len(token) <= TOKEN_CHARACTERS_MAX:
            size = f"{len(token)} characters" if isinstance(token, str) else f"a value of type {type(token).__name__}"
            raise ConfigError(
                f"socket_token ({size}, not shown): "
                f"must be a text of {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} characters"
            )

    def _check_racks(self) -> None:
        """Costs, and tags as ``StreamsConfig`` takes them."""
        for key in _COSTS:
            cost = getattr(self, key)
            if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int) or not _COST.allows(cost)):
                raise ConfigError(f"{key} = {cost!r}: must be {_COST}")
        tags, keys = self.client_tags, self.rack_aware_assignment_tags
        if len(tags) > TAGS_MAX or len(keys) > TAGS_MAX:
            raise ConfigError(f"client_tags = {dict(tags)!r}: at most {TAGS_MAX} tags can be told, and told apart")
        for key, value in tags.items():
            if len(key) > TAG_KEY_LENGTH_MAX or len(value) > TAG_VALUE_LENGTH_MAX:
                raise ConfigError(
                    f"client_tags = {{{key!r}: {value!r}}}: a key has at most {TAG_KEY_LENGTH_MAX} characters, a value {TAG_VALUE_LENGTH_MAX}"
                )
        if missing := [key for key in keys if key not in tags]:
            raise ConfigError(
                f"rack_aware_assignment_tags = {list(keys)!r}: client_tags must have a value for each key, and has none for {missing[0]}"
            )
        strategy = self.rack_aware_assignment_strategy
        if strategy != "none" and self.assignor == "least_movement" and find_spec("networkx") is None:
            raise ConfigError(
                f"rack_aware_assignment_strategy = {strategy!r}: needs networkx for assignor 'least_movement'; "
                "pip install 'kstreams-assign[rack]', or set assignor = 'high_availability'"
            )

    @property
    def consumer(self) -> Mapping[str, str]:
        """``client`` for a client that fetches records: from a replica in its own rack where it may (KIP-392)."""
        return self.client if self.client_rack is None else {**self.client, "client.rack": self.client_rack}

    @property
    def exactly_once(self) -> bool:
        """Whether commits are transactions."""
        return self.processing_guarantee == "exactly_once_v2"

    def leaves(self, operation: str | None = None) -> bool:
        """Whether a member leaves its group when it is closed; ``operation`` counts over the setting. Raises ``ConfigError``."""
        wanted = self.group_membership_operation if operation is None else operation
        if wanted not in MEMBERSHIP_OPERATIONS:
            allowed = ", ".join(MEMBERSHIP_OPERATIONS)
            raise ConfigError(f"group_membership_operation = {wanted!r}: must be one of {allowed}")
        return wanted == "leave_group" or (wanted == "default" and self.group_instance_id is None)

    def refuse_unless_apache(self, wish: str) -> None:
        """For what only Apache's user-data can say. Raises ``ConfigError``."""
        if self.user_data != "apache":
            raise ConfigError(f"user_data = {self.user_data!r}: has no word for {wish}; must be 'apache'")

    @property
    def endpoint(self) -> HostInfo | None:
        """``application_server`` as host and port; None where it is not set."""
        return _address("application_server", self.application_server)

    @property
    def http_address(self) -> HostInfo | None:
        """``http`` as host and port; None where it is not set. The host is never left out: who may read is said aloud."""
        return _address("http", self.http)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Config:
        """Build from plain keys and values; an unknown or missing key is refused by name."""
        known = {f.name: f for f in fields(cls)}
        for key in settings:
            if key not in known:
                raise ConfigError(f"{key}: no such setting; allowed are {', '.join(sorted(known))}")
        for key in ("application_id", "bootstrap_servers"):
            if key not in settings:
                raise ConfigError(f"{key}: missing; it has no default")
        values: dict[str, Any] = {
            k: tuple(v) if k == "rack_aware_assignment_tags" and isinstance(v, list) else v for k, v in settings.items()
        }
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | Path) -> Config:
        """Read a TOML file of the same keys. Raises ``ConfigError`` also for a file that cannot be read."""
        try:
            settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
            raise ConfigError(f"{path}: {cause}") from cause
        return cls.from_mapping(settings)
