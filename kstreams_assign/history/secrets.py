"""Secrets in the settings of a run: which they are, the file that they can come from, and errors without them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kstreams_assign.client_settings.texts import without_secrets
from kstreams_assign.errors import ConfigError, KStreamsAssignError

SECRET_NAMES = "(?i)" + "|".join(
    (
        *("secret", "password", "token", "access[.]?key", "credential", "jaas"),  # the first five are Spark's default
        *("account[.]key", "azure[.]sas", "client-provided-key"),  # of ABFS
        *("private[.]?key", "encryption[.]key"),  # of GCS and S3
    )
)
"""Names of Spark's settings whose values may be secrets."""

TABLES = ("client", "conf")


@dataclass(frozen=True)
class SettingsFile:
    """A file's tables: settings of the Kafka clients, and of Spark."""

    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_settings(path: Path) -> SettingsFile:
    """Read the TOML file of ``--config``. Raises ``ConfigError``, without a value that the file has."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path}: cannot be read ({getattr(error, 'strerror', 'not UTF-8')})") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at .*\)$", str(error))
        raise ConfigError(f"--config {path}: is not TOML{f' {place[0]}' if place else ''}") from None
    for name, table in tables.items():
        if name not in TABLES or not isinstance(table, dict):
            raise ConfigError(f"--config {path}: {name!r} is not allowed; it has the tables [client] and [conf]")
        for key, value in table.items():
            if not isinstance(value, str):
                raise ConfigError(
                    f"--config {path}: {key!r} of [{name}] must be a text in quotes, as its whole name is"
                )
    return SettingsFile(tables.get("client", {}), tables.get("conf", {}))


def is_secret(name: str) -> bool:
    """Return whether the value of a setting of Spark may be a secret."""
    return re.search(SECRET_NAMES, name) is not None


def secrets_of_conf(conf: Mapping[str, str]) -> frozenset[str]:
    """Return the values of Spark's settings that must not be shown."""
    return frozenset(value for name, value in conf.items() if value and is_secret(name))


@contextmanager
def errors_without(secrets: frozenset[str]) -> Iterator[None]:
    """Hide the secrets in an error of the block."""
    try:
        yield
    except KStreamsAssignError as error:
        error.args = tuple(without_secrets(str(each), secrets) for each in error.args)
        raise
