"""Every setting, in one frozen value that is checked when it is made.

The keys are Kafka's own, dots written as underscores; ``Config.from_toml`` reads the same keys from a file. What must
not live here: ranges and choices (``allowed_values``), defaults that depend on the machine, or a setting that only one
demonstration needs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

from kstreams_assign.allowed_values import (
    CHOICES,
    COSTS,
    DISK,
    MEMORY,
    RANGES,
    BalanceBy,
    Guarantee,
    check_value,
    check_values,
)
from kstreams_assign.client_settings import (
    MemberTimes,
    check_arguments,
    refuse_incomplete_addresses,
    refuse_settings,
    unknown_key,
)
from kstreams_assign.errors import ConfigError
from kstreams_assign.memory import Memory, divide_memory
from kstreams_assign.model import HostInfo

TAGS_MAX, TAG_KEY_LENGTH_MAX, TAG_VALUE_LENGTH_MAX = 5, 20, 30
"""Kafka: ``MAX_RACK_AWARE_ASSIGNMENT_TAG_LIST_SIZE`` and its neighbours."""
TOKEN_CHARACTERS_MIN, TOKEN_CHARACTERS_MAX = 16, 255
"""Length of ``socket_token`` and ``query_token``; a string of the sidecar's protocol has 255 characters at most."""
_PORT_DIGITS_MAX = 5
"""Python refuses to read a number of thousands of digits with an error of its own."""
_ENDPOINT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?(?P<host>[0-9a-zA-Z\-%._:]{0,255})\]?:0*(?P<port>[0-9]{1,10})")
"""Java: ``Utils.HOST_PORT_PATTERN``, which must match the whole text; the limits of the lengths are ours."""
PORT_MAX, _INT32_MAX = 2**16 - 1, 2**31 - 1
_EXAMPLES: Mapping[str, str] = {"application_id": "word-count", "bootstrap_servers": "localhost:9092"}
"""A value for each setting that has no default."""


def read_host(key: str, text: object) -> HostInfo | None:
    """Return HOST:PORT as host and port; None for None. Raises ``ConfigError``, which names ``key``."""
    if text is None:
        return None
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not (colon and host and is_port(port)):
        raise ConfigError(f"{key} = {text!r}: must be HOST:PORT")
    return HostInfo(host, int(port))


def read_endpoint(text: str) -> HostInfo | None:
    """Return the host and the port of an endpoint as Java reads them: without a scheme, and without brackets.

    None for a text that Java does not read. The host may be empty, and the port above 65535. A Java member looks
    itself up by these values (``HostInfo.buildFromEndpoint``, ``Utils.getHost``, ``Utils.getPort``).
    """
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > _INT32_MAX:
        return None
    return HostInfo(match["host"], int(match["port"]))


def is_port(text: str) -> bool:
    """Return whether a text is a port: a number below 65536 in ASCII digits."""
    return text.isascii() and text.isdecimal() and len(text) <= _PORT_DIGITS_MAX and int(text) < 2**16


def loops_back(host: str) -> bool:
    """Return whether only this machine reaches the host: ``localhost``, or a loopback address."""
    address = _ip(host)
    return host == "localhost" if address is None else address.is_loopback


def _ip(host: str) -> Any:
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _refuse_unknown_keys(config: type[Config], keys: Iterable[str]) -> None:
    known = {each.name for each in fields(config)}
    for key in keys:
        if key not in known:
            raise ConfigError(unknown_key(key, known))


def _refuse_nested_keys(config: type[Config], settings: Mapping[str, Any]) -> None:
    """Refuse ``num.standby.replicas = 1``, which TOML reads as tables in tables, by its dotted name."""
    known = {each.name for each in fields(config)}
    for key, value in settings.items():
        if key not in known:
            _refuse_unknown_keys(config, [_dotted(key, value)])
        elif key == "client" and isinstance(value, Mapping):
            for name, inner in value.items():
                if isinstance(inner, Mapping) or f"client_{name}" in known:
                    raise ConfigError(unknown_key(_dotted(f"client.{name}", inner), known))


def _dotted(key: str, value: object) -> str:
    """Return the dotted name of the first setting in tables in tables."""
    while isinstance(value, Mapping) and value:
        name, value = next(iter(value.items()))
        key = f"{key}.{name}"
    return key


def _refuse_missing_keys(given: Collection[str]) -> None:
    for key, example in _EXAMPLES.items():
        if key not in given:
            raise ConfigError(f"{key}: missing; it has no default; set it, for example {key} = {example!r}")


def _refuse_wrong_keys(keys: Collection[str]) -> None:
    _refuse_unknown_keys(Config, keys)
    _refuse_missing_keys(keys)


@check_arguments(_refuse_wrong_keys)
@dataclass(frozen=True, slots=True)
class Config:
    """Hold the settings of one member; every value is checked when the object is made.

    The keys are Kafka's names with underscores for dots, and mean what they mean in Kafka (``StreamsConfig``,
    ``ConsumerConfig``). The reference of settings in the documentation describes each of them;
    ``kstreams_assign.reference.settings()`` returns the same descriptions. Raises ``ConfigError``, which names the key,
    its value, what is allowed, and the fix.
    """

    application_id: str
    """Name of the application: the consumer group's id, and the prefix of its internal topics."""

    bootstrap_servers: str
    """Brokers to connect to first, as ``HOST:PORT``, separated by commas. The port is required; an IPv6 address stands
    in brackets, as in ``[::1]:9092``."""

    state_dir: str = "state"
    """Directory for task state. Each process on a machine needs its own; it also keeps the process id."""

    process_name: str | None = None
    """Permanent name of this process: the same name gives the same process id, also on an empty volume. It must be
    unique in the group. Without it, the process id is drawn once and kept in ``state_dir``."""

    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the Kafka clients (SASL, TLS, buffers) under librdkafka's dotted names, values as strings. Each
    reaches every client that it concerns; a setting that cannot be honoured is refused."""

    application_server: str | None = None
    """Endpoint of this process as ``HOST:PORT``, sent to the group: where other processes ask for its keys."""

    group_instance_id: str | None = None
    """Makes this a static member (KIP-345) with this id. It must be unique in the group. In a streams group it needs
    brokers of Kafka 4.4 or later."""

    group_membership_operation: str = "default"
    """What happens to the membership at close (Kafka: ``CloseOptions.GroupMembershipOperation``). By default a dynamic
    member leaves the group, and a static one stays until its session ends."""

    client_rack: str | None = None
    """Rack of this process. It is sent to the group, and records are fetched from a replica in this rack if the
    brokers allow it (KIP-392)."""

    client_tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of this process, such as ``zone``, by which standbys are spread (KIP-708). At most 5; a key has at most 20
    characters, a value 30."""

    rack_aware_assignment_tags: tuple[str, ...] = ()
    """Keys of ``client_tags`` by which standbys are spread (KIP-708): a task's replicas get different values."""

    rack_aware_assignment_strategy: str = "none"
    """Whether tasks are placed near the replicas of their topics (KIP-925), and what is preferred: less traffic between
    racks, or balanced subtopologies."""

    rack_aware_assignment_traffic_cost: int | None = None
    """Cost of one read across racks (KIP-925). Without it, the assignor's own."""

    rack_aware_assignment_non_overlap_cost: int | None = None
    """Cost of moving one task off the process that has it (KIP-925). Without it, the assignor's own."""

    num_standby_replicas: int = 0
    """Number of standby replicas of each task with state."""

    acceptable_recovery_lag: int = 10_000
    """Lag in offsets, summed over a task's changelogs, up to which a replica counts as caught up (KIP-441)."""

    max_warmup_replicas: int = 2
    """Number of warm-up replicas that the whole group may have at a time (KIP-441)."""

    probing_rebalance_interval_ms: int = 600_000
    """Milliseconds from an assignment with warm-ups to the probing rebalance that checks them (KIP-441)."""

    scheduled_rebalance_max_delay_ms: int = 60_000
    """Milliseconds that tasks without a caught-up replica wait at most for a process that restarts
    (``close(restart=True)``; Kafka Connect's name, KIP-415). The leader's value counts; 0: they do not wait."""

    sigterm: str = "close"
    """What the command ``worker`` does on SIGTERM: ``close`` for good, or ``restart``: announce first that the process
    will be back soon."""

    warmup_queue: bool = False
    """Assign all warm-ups at once and restore ``max_warmup_replicas`` of them at a time. One rebalance then hands all
    of them over."""

    early_probing: bool = True
    """Ask for a probing rebalance as soon as it can hand a task over, without waiting for the interval."""

    early_probing_floor_ms: int = 10_000
    """Milliseconds between two rebalances that ``early_probing`` leaves at least."""

    state_cleanup_delay_ms: int = 600_000
    """Milliseconds until state of a task that is not assigned here is deleted."""

    state_cleanup_dir_max_age_ms: int = -1
    """Milliseconds without use after which task state is deleted at start (KIP-1259); -1 is off. The age counts from
    the task's release or the last sign of life, and not from the folder's modification as in Kafka."""

    assignor: str = "least_movement"
    """How the leader assigns tasks. ``high_availability`` decides as Java's assignor of Kafka 4.3.1 does. ``sticky``
    and ``fallback_prior`` have the rules of Java's, but of equally good processes they may choose another, and they do
    not look at racks."""

    balance_by: str = "tasks"
    """By what ``least_movement`` balances active tasks over processes: their number, the records that arrive in their
    input, or the size of their state on disk. All members need the same; it is ignored, with a warning, where they
    differ or a Java member is present."""

    errors_dead_letter_queue_topic_name: str | None = None
    """Topic for input records that cannot be processed, for subtopologies with ``on_error = "dead_letter"`` (KIP-1034).
    It must exist."""

    processing_guarantee: str = "at_least_once"
    """Delivery guarantee; with ``exactly_once_v2`` each commit is a transaction (KIP-447)."""

    user_data: Literal["apache", "kip441"] = "apache"
    """Layout of the bytes that members exchange: Apache Kafka's, or that of KIP-441's text, which only members of this
    package read."""

    group_protocol: str = "classic"
    """Protocol of the group (Kafka: ``group.protocol``): ``classic``, in which a member leads and assigns the tasks, or
    ``streams``, in which the brokers do (KIP-1071; Kafka 4.2 and later). All members need the same."""

    warm_join: bool = True
    """Whether a process first restores the state of the tasks that it will get in a streams group, and then joins: its
    tasks are silent for a moment, whatever the size of their state. It also restores the tasks of members that drain,
    and has its own restored when it drains."""

    warm_join_timeout_ms: int = 3_600_000
    """Milliseconds after which it joins, or leaves when it drains, in any case."""

    warm_join_max_bytes: int | None = None
    """Bytes of disk that the state of these tasks may take before they come; None: nine tenths of the disk of
    ``state_dir``, as far as they are free. A task that is predicted to take more is not restored first."""

    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    """Where a task starts to read a partition that has no committed offset, or whose committed offset is deleted."""

    session_timeout_ms: int = 45_000
    """Milliseconds without a heartbeat after which the brokers remove this member from the group."""

    heartbeat_interval_ms: int = 500
    """Milliseconds between two heartbeats, at most a third of ``session_timeout_ms`` and ``max_poll_interval_ms``. A
    heartbeat also brings the news of a rebalance, so this is shorter than Kafka's 3,000."""

    max_poll_interval_ms: int = 300_000
    """Milliseconds that one call of the user's function may take; after that the member leaves the group until the
    call returns. At a sidecar: how long an application may send no request while each has its answer; after that its
    session ends."""

    max_poll_records: int = 2_000
    """Number of records that one call of the user's function gets at most. Slow calls get fewer, down to one."""

    max_poll_bytes: int = 16 << 20
    """Bytes of keys and values that a batch may read, and may write, approximately."""

    commit_interval_ms: int = 100
    """Milliseconds between two commits. Kafka: 30,000 at least once, 100 exactly once."""

    buffered_records_max: int = 20_000
    """Number of processed records that may wait for a commit. Processing pauses there until the commit."""

    memory_limit_bytes: int | None = None
    """Bytes of memory that this process may take, such as the limit of its container: the next six settings divide
    them, as far as they are not set. For ``run`` and ``worker --processes`` it is that of all processes together.
    Without it, each setting has its own default, some 1.1 GiB in all. Your own objects come on top."""

    rocksdb_block_cache_bytes: int | None = None
    """Bytes of the cache that all stores of this process share. Without it, the share of ``memory_limit_bytes``, or
    64 MiB."""

    rocksdb_write_buffers_bytes: int | None = None
    """Bytes of new entries that RocksDB holds in memory, of all stores together. Without it, the share of
    ``memory_limit_bytes``, or 256 MiB."""

    statestore_cache_max_bytes: int | None = None
    """Bytes of entries that tasks remember of what they read from and wrote to their stores on disk, of all stores
    together; 0 remembers none. Without it, the share of ``memory_limit_bytes``, or Kafka's 10 MiB."""

    input_buffer_max_bytes: int | None = None
    """Bytes of input records that are fetched ahead, of all tasks together (KIP-770). Without it, the share of
    ``memory_limit_bytes``, or 64 MiB."""

    restore_buffer_max_bytes: int | None = None
    """Bytes of changelog records that are fetched ahead while stores are restored, of all stores together. Without it,
    the share of ``memory_limit_bytes``, or 64 MiB."""

    output_buffer_max_bytes: int | None = None
    """Bytes of keys and values that tasks wrote and emitted and that wait for a commit. Processing pauses there until
    the commit. Without it, the share of ``memory_limit_bytes``, or 64 MiB."""

    repartition_purge_interval_ms: int = 30_000
    """Milliseconds between two deletions of consumed records from repartition topics."""

    replication_factor: int = -1
    """Replication factor of topics that the leader creates; -1 is the brokers' default."""

    http: str | None = None
    """Address for health, metrics and the status page as ``HOST:PORT``; port 0 takes a free port. Without it, none."""

    query: str | None = None
    """Address as ``HOST:PORT`` at which this process answers queries of its stores; port 0 takes a free port. Without
    it, none. Other processes and clients ask at ``application_server``, which is this address if it is not set."""

    query_token: str | None = field(default=None, repr=False)
    """Secret of 16 to 255 characters that processes and clients prove to know before they query; the same in every
    process of the application. Required unless ``query`` is a loopback address."""

    socket: str | None = None
    """Where the sidecar (``kstreams-assign worker``) listens: the path of a Unix socket, or
    ``tcp://127.0.0.1:PORT``."""

    socket_token: str | None = field(default=None, repr=False)
    """Secret of 16 to 255 characters that an application sends to the sidecar first; required for TCP."""

    def __post_init__(self) -> None:
        optional = ("process_name", "group_instance_id", "client_rack", "errors_dead_letter_queue_topic_name")
        named = [key for key in optional if getattr(self, key) is not None]
        for key in ("application_id", "bootstrap_servers", "state_dir", *named):
            if not isinstance(getattr(self, key), str) or not getattr(self, key):
                raise ConfigError(f"{key} = {getattr(self, key)!r}: must be a non-empty string")
        check_values(self, RANGES)
        for key in ("early_probing", "warmup_queue", "warm_join"):
            if not isinstance(getattr(self, key), bool):
                raise ConfigError(f"{key} = {getattr(self, key)!r}: must be true or false")
        check_values(self, CHOICES)
        check_values(self, MEMORY)
        check_values(self, DISK)
        self._check_shapes()
        self._check_racks()
        self._check_protocol()
        for key in ("socket_token", "query_token"):
            _check_token(key, getattr(self, key))
        self._check_query()
        refuse_incomplete_addresses(self.bootstrap_servers, self.client.get("security.protocol", "plaintext"))
        times = MemberTimes(self.exactly_once, self.session_timeout_ms, self.max_poll_interval_ms)
        refuse_settings(self.client, times)
        for key in ("session_timeout_ms", "max_poll_interval_ms"):
            if self.heartbeat_interval_ms * 3 > getattr(self, key):
                raise ConfigError(
                    f"heartbeat_interval_ms = {self.heartbeat_interval_ms}: must be at most a third of "
                    f"{key} = {getattr(self, key)}"
                )
        self._refuse_two_queue_sizes()
        self.endpoint, self.http_address, self.memory  # noqa: B018  # refuses a wrong value now, not when it is used

    def _check_shapes(self) -> None:
        """Check tables and lists of strings. Values of ``client`` are not shown, as they may be passwords."""
        for key in ("client", "client_tags"):
            table = getattr(self, key)
            if not isinstance(table, Mapping):
                shown = f" = {table!r}" if key == "client_tags" else ""
                raise ConfigError(f"{key}{shown}: must be a table of strings")
            for name, value in table.items():
                if not isinstance(name, str) or not isinstance(value, str):
                    shown = f" = {value!r}" if key == "client_tags" else ""
                    raise ConfigError(f"{key}: {name}{shown}: must be a string, in quotes")
        tags = self.rack_aware_assignment_tags
        if not isinstance(tags, tuple | list) or not all(isinstance(tag, str) for tag in tags):
            raise ConfigError(f"rack_aware_assignment_tags = {tags!r}: must be a list of strings")

    def _check_query(self) -> None:
        """Check that the queries' address is protected, and that others can learn it."""
        address, endpoint = self.query_address, self.endpoint
        if address is None:
            return
        if self.query_token is None and not loops_back(address.host):
            raise ConfigError(
                f"query = {self.query!r}: needs a query_token, as other machines reach it; set one of "
                f"{TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} characters, or listen at 127.0.0.1"
            )
        ip = _ip(address.host)
        is_any_address = ip is not None and ip.is_unspecified
        if endpoint is None and (is_any_address or read_endpoint(str(self.query)) is None):
            raise ConfigError(
                f"query = {self.query!r}: is no address that others can ask at; set application_server to one, as "
                f"HOST:{address.port}"
            )
        if endpoint is not None and address.port == 0 != endpoint.port:
            raise ConfigError(
                f"query = {self.query!r}: takes a free port, but application_server = {self.application_server!r} "
                f"names one; set query to a port, or application_server to {endpoint._replace(port=0)} for the "
                "port that was taken"
            )

    def _check_protocol(self) -> None:
        if not self.in_streams_group:
            return
        if self.user_data != "apache":
            raise ConfigError(
                f"user_data = {self.user_data!r}: members of a streams group send none; remove it, or set "
                'group_protocol = "classic"'
            )

    def _refuse_two_queue_sizes(self) -> None:
        name = "queued.max.messages.kbytes"
        if name in self.client:
            for key in ("memory_limit_bytes", "input_buffer_max_bytes", "restore_buffer_max_bytes"):
                if (value := getattr(self, key)) is not None:
                    raise ConfigError(f"client: {name}: remove it, as {key} = {value} sets it, too")

    def _check_racks(self) -> None:
        """Check costs, and tags as ``StreamsConfig`` does."""
        check_values(self, COSTS)
        tags, keys = self.client_tags, self.rack_aware_assignment_tags
        if len(tags) > TAGS_MAX or len(keys) > TAGS_MAX:
            raise ConfigError(f"client_tags = {dict(tags)!r}: must have at most {TAGS_MAX} tags")
        for key, value in tags.items():
            if len(key) > TAG_KEY_LENGTH_MAX or len(value) > TAG_VALUE_LENGTH_MAX:
                raise ConfigError(
                    f"client_tags = {{{key!r}: {value!r}}}: a key must have at most {TAG_KEY_LENGTH_MAX} characters, "
                    f"a value {TAG_VALUE_LENGTH_MAX}"
                )
        if missing := [key for key in keys if key not in tags]:
            raise ConfigError(
                f"rack_aware_assignment_tags = {list(keys)!r}: client_tags must have a value for each key; "
                f"add one for {missing[0]}"
            )
        strategy = self.rack_aware_assignment_strategy
        self._check_balance()
        if strategy != "none" and self.assignor == "least_movement" and find_spec("networkx") is None:
            raise ConfigError(
                f"rack_aware_assignment_strategy = {strategy!r}: needs networkx for assignor 'least_movement'; "
                "install it (in a checkout: pip install '.[rack]'), or set assignor = 'high_availability'"
            )

    def _check_balance(self) -> None:
        if self.balance_by == BalanceBy.TASKS or self.in_streams_group:
            return
        for key, needed in (("assignor", "least_movement"), ("rack_aware_assignment_strategy", "none")):
            if (value := getattr(self, key)) != needed:
                raise ConfigError(
                    f"balance_by = {self.balance_by!r}: needs {key} = {needed!r}, not {value!r}; set it, or remove "
                    "balance_by"
                )

    @property
    def write_lease_ms(self) -> int:
        """Return for how long an answered heartbeat lets this member write, at the most."""
        return min(self.session_timeout_ms, self.max_poll_interval_ms)

    @property
    def consumer(self) -> Mapping[str, str]:
        """Return ``client`` for a client that fetches records, with the rack of this process (KIP-392)."""
        return self.client if self.client_rack is None else {**self.client, "client.rack": self.client_rack}

    @property
    def memory(self) -> Memory:
        """Return what each part of this process may fill."""
        return divide_memory(self.memory_limit_bytes, {key: getattr(self, key) for key in MEMORY})

    @property
    def batch_bytes_max(self) -> int:
        """Return ``max_poll_bytes``, or less where the buffers for input and output are small."""
        memory = self.memory
        return min(self.max_poll_bytes, memory.input_buffer_max_bytes // 2, memory.output_buffer_max_bytes // 2)

    @property
    def exactly_once(self) -> bool:
        """Return whether commits are transactions."""
        return self.processing_guarantee == Guarantee.EXACTLY_ONCE

    @property
    def in_streams_group(self) -> bool:
        """Return whether the brokers assign the tasks (KIP-1071)."""
        return self.group_protocol == "streams"

    def leaves(self, operation: str | None = None) -> bool:
        """Return whether the member leaves its group at close; ``operation`` replaces the setting.

        Raises ``ConfigError`` for another value.
        """
        wanted = self.group_membership_operation if operation is None else operation
        check_value("group_membership_operation", wanted)
        return wanted == "leave_group" or (wanted == "default" and self.group_instance_id is None)

    def refuse_unless_apache(self, request: str) -> None:
        """Raise ``ConfigError`` for a request that only Apache's user-data can express."""
        if self.user_data != "apache":
            raise ConfigError(f"user_data = {self.user_data!r}: cannot express {request}; set 'apache'")

    @property
    def endpoint(self) -> HostInfo | None:
        """Return ``application_server`` as Java reads it (``read_endpoint``); None where it is not set."""
        text = self.application_server
        if text is None:
            return None
        endpoint = read_endpoint(text) if isinstance(text, str) else None
        if endpoint is None or not endpoint.host or endpoint.port > PORT_MAX:
            raise ConfigError(
                f"application_server = {text!r}: must be HOST:PORT, as Java reads it; set it to an address such as "
                "pod-1:8080 or [::1]:8080, with a host of ASCII letters, digits and - . _ % : and a port up to "
                f"{PORT_MAX}"
            )
        return endpoint

    @property
    def http_address(self) -> HostInfo | None:
        """Return ``http`` as host and port; None where it is not set. It always names a host."""
        return read_host("http", self.http)

    @property
    def query_address(self) -> HostInfo | None:
        """Return ``query`` as host and port; None where it is not set. It always names a host."""
        return read_host("query", self.query)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Config:
        """Build from plain keys and values. Raises ``ConfigError``, also for an unknown or a missing key."""
        _refuse_nested_keys(cls, settings)
        _refuse_missing_keys(settings)
        values: dict[str, Any] = {
            k: tuple(v) if k == "rack_aware_assignment_tags" and isinstance(v, list) else v for k, v in settings.items()
        }
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | Path) -> Config:
        """Read a TOML file of the same keys. Raises ``ConfigError``, also for a file that cannot be read."""
        return cls.from_mapping(read_toml_file(path))


def _check_token(key: str, token: object) -> None:
    if token is None:
        return
    if not isinstance(token, str) or not TOKEN_CHARACTERS_MIN <= len(token) <= TOKEN_CHARACTERS_MAX:
        size = f"{len(token)} characters" if isinstance(token, str) else f"a value of type {type(token).__name__}"
        raise ConfigError(
            f"{key} ({size}, not shown): "
            f"must be a string of {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} characters"
        )


def read_toml_file(path: str | Path) -> dict[str, Any]:
    """Return the keys and values of a TOML file. Raises ``ConfigError`` with the file's absolute path."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        why = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        raise ConfigError(f"{Path(path).absolute()}: cannot be read as TOML: {why}") from cause
