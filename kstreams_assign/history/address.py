"""What ``--out`` names: a folder, or an address in a file system of Hadoop. Pure: nothing is looked up.

An address is a string such as ``s3a://bucket/history``; a folder is a ``Path``.
"""

from __future__ import annotations

import re
from pathlib import Path

from kstreams_assign.errors import ConfigError

Out = Path | str
"""A folder, or an address."""

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?P<rest>.*)", re.DOTALL)

OTHER_SCHEMES = {"s3": "s3a", "s3n": "s3a", "abfs+ssl": "abfss", "gcs": "gs"}
"""What other programs call a file system -> what Hadoop calls it."""

_WILD = re.compile(r"[*?#\[\]{}\\\s]")
"""Spark takes such a path for a pattern, or Hadoop for a part of an address."""


def read_out(text: str) -> Out:
    """Return what ``--out`` names. Raises ``ConfigError`` without the address where that may have a secret in it."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return Path(text)
    scheme, rest = match["scheme"].lower(), match["rest"]
    hidden = f"--out {scheme}:/(not shown)"
    if scheme == "file":
        raise ConfigError(f"{hidden}: a folder of this machine has no scheme; name the folder itself")
    if re.search(r":[^@]*@", rest):  # wherever it ends: a secret may have slashes in it
        raise ConfigError(
            f"{hidden}: an address with a password is not allowed, as it would stand in logs and errors; put the keys "
            "of the file system into the table [conf] of the file that --config names"
        )
    if "?" in rest:
        raise ConfigError(
            f"{hidden}: an address with ?... is not allowed, as a signature would stand in logs and errors; put it "
            "into the table [conf] of the file that --config names, for ABFS as spark.hadoop.fs.azure.sas.fixed.token.*"
        )
    if scheme in OTHER_SCHEMES:
        raise ConfigError(
            f"--out {text}: Hadoop calls it {OTHER_SCHEMES[scheme]}; write {OTHER_SCHEMES[scheme]}:/{rest}"
        )
    if wild := _WILD.search(rest):
        raise ConfigError(f"--out {text}: the character {wild[0]!r} is not allowed in an address; name another place")
    return f"{scheme}:/{rest.rstrip('/')}"


def is_address(out: Out) -> bool:
    """Return whether the tables are in a file system of Hadoop, and not in a folder."""
    return isinstance(out, str)


def pattern_of(path: str) -> str:
    """Return the pattern that this path alone matches: Spark takes the path of what it reads for a pattern."""
    return re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", path)


def scheme_of(address: str) -> str:
    """Return the scheme of an address."""
    return address.partition(":")[0]
