"""What a copy of a log lacks and what no reader needs, by names alone; addresses; and errors of Hadoop."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError
from kstreams_assign.history import mirror
from kstreams_assign.history.address import is_address, read_out
from kstreams_assign.history.hadoop import hadoops_failure
from kstreams_assign.history.mirror import HINT, Listed, checkpoints_of, entry, expired, files_of, hinted, unsent

# --- names in a log ---------------------------------------------------------------------------


def checkpoint(version, parts=1):
    if parts == 1:
        return [f"{version:020d}.checkpoint.parquet"]
    return [f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet" for part in range(1, parts + 1)]


@st.composite
def logs(draw):
    """The names in a log of up to a dozen versions: some entries and parts of checkpoints may be missing."""
    last = draw(st.integers(0, 12))
    names = {entry(version) for version in range(last + 1)}
    for version in draw(st.sets(st.integers(0, last), max_size=4)):
        names |= set(checkpoint(version, draw(st.integers(1, 3))))
    return sorted(names - draw(st.sets(st.sampled_from(sorted(names)), max_size=4)))


def known_after(files):
    """The slow twin of a reader: what it has read of the versions' changes, or None where it cannot go on."""
    known: set[int] | None = None
    for name in files:
        version = mirror.version_of(name)
        if name == entry(version):
            if version == 0 or (known is not None and version - 1 in known):
                known = {*(known or ()), version}
            elif known is None or version not in known:
                return None
        else:
            known = set(range(version + 1))
    return known


def whole_checkpoints(names):
    """The slow twin of ``checkpoints_of``."""
    return {version for version in range(13) for parts in (1, 2, 3) if set(checkpoint(version, parts)) <= {*names}}


def can_read(names, version):
    """Whether any start from the beginning or from a checkpoint comes to that version, whose own entry is there."""
    starts = {-1, *whole_checkpoints(names)}
    return entry(version) in names and any(
        all(entry(each) in names for each in range(start + 1, version + 1)) for start in starts if start <= version
    )


@given(logs())
def test_whole_checkpoints_are_found(names):
    assert checkpoints_of(names).keys() == whole_checkpoints(names)


@given(logs())
def test_what_is_fetched_of_a_log_is_all_that_a_version_needs(names):
    for version in range(14):
        files = files_of(names, version)
        assert (files is not None) == can_read(names, version)
        if files is not None:
            assert known_after(files) == set(range(version + 1))
            assert set(files) <= set(names)
    assert mirror.readable(names) == [version for version in range(14) if can_read(names, version)]


@given(logs())
def test_no_more_is_fetched_than_one_checkpoint_and_what_is_behind_it(names):
    for version in mirror.readable(names):
        files = files_of(names, version)
        newest = max((at for at in whole_checkpoints(names) if at <= version), default=0)
        assert {mirror.version_of(name) for name in files} <= set(range(newest, version + 1))


@given(logs(), st.lists(st.integers(0, 9), min_size=13, max_size=13), st.integers(0, 10))
def test_of_a_log_goes_what_no_version_since_the_cutoff_needs(names, waits, cutoff_ms):
    """Against trying every start: the last one from which all those versions can still be read."""
    times = [sum(waits[: version + 1]) for version in range(13)]
    log = [Listed(name, 1, times[mirror.version_of(name)]) for name in names]
    at_cutoff = mirror.version_at(log, cutoff_ms)
    gone = expired(log, cutoff_ms)
    left = set(names) - set(gone)
    if at_cutoff is None:
        assert gone == []
        return
    since = [version for version in mirror.entries_of(names) if version >= at_cutoff]
    assert [v for v in since if can_read(left, v)] == [v for v in since if can_read(names, v)]
    starts = [at for at in whole_checkpoints(names) if at <= at_cutoff]
    assert left == {name for name in names if mirror.version_of(name) >= max(starts, default=0)}


@pytest.mark.parametrize(
    ("newest", "behind"),
    [
        (1, []),
        (0, [entry(1)]),
        (-1, [entry(0), *checkpoint(0), entry(1), HINT]),
    ],
)
def test_an_entry_is_sent_before_its_checkpoint_and_the_hint_last(newest, behind):
    names = [HINT, *checkpoint(0), entry(1), entry(0), ".theirs-x", "notes.txt"]
    assert unsent(names, newest) == behind


def test_what_follows_a_commit_that_was_too_late_is_dropped():
    names = [HINT, entry(3), entry(4), *checkpoint(4), "notes.txt"]
    assert mirror.refused(names, 4) == [HINT, entry(4), *checkpoint(4)]


@pytest.mark.parametrize(
    ("content", "files"),
    [
        ({"version": 19, "size": 22}, checkpoint(19)),
        ({"version": 19, "size": 22, "parts": 3}, checkpoint(19, 3)),
        ({"version": None}, []),
        ({}, []),
        ([], []),
        ("torn", []),
    ],
)
def test_a_hint_names_files_or_none(content, files):
    assert list(hinted(json.dumps(content).encode()[: -1 if content == "torn" else None])) == files


# --- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "s3a://bucket/history",
        "gs://bucket/a/b",
        "abfss://container@account.dfs.core.windows.net/history",
        "hdfs://namenode:8020/history",
        "hdfs:///history",
        "viewfs://cluster/history",
    ],
)
def test_an_address_is_taken_as_it_is(text):
    assert read_out(text) == read_out(f"{text}/") == text
    assert is_address(read_out(text))


@pytest.mark.parametrize("text", ["history", "/var/lib/history", "a:b", "./s3a:", "C:/history"])
def test_a_folder_has_no_scheme(text):
    place = read_out(text)
    assert str(place) == os.path.normpath(text)
    assert not is_address(place)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("file:///var/marker", "a folder of this machine has no scheme; name the folder itself"),
        ("s3a://KEY:marker@bucket/history", r"put the keys .* into the table \[conf\] of the file that --config names"),
        ("hdfs://me:mar@ker@host/history", "an address with a password is not allowed"),
        ("s3a://KEY:a/marker@bucket/history", "an address with a password is not allowed"),
        ("s3://KEY:a/marker@bucket/history", "an address with a password is not allowed"),
        ("abfss://c@a.dfs.core.windows.net/h?sig=marker", r"into the table \[conf\] .*fs.azure.sas.fixed.token"),
    ],
)
def test_an_address_with_a_secret_is_refused_without_it(text, problem):
    with pytest.raises(ConfigError, match=problem) as refused:
        read_out(text)
    assert "marker" not in str(refused.value)
    assert "ker@host" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("s3://bucket/history", "--out s3://bucket/history: Hadoop calls it s3a; write s3a://bucket/history"),
        ("s3a://bucket/a*", r"the character '\*' is not allowed"),
        ("hdfs://host/a b", "the character ' ' is not allowed"),
    ],
)
def test_an_address_that_spark_would_not_find_is_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        read_out(text)


@pytest.mark.parametrize(
    ("address", "said", "status", "fix"),
    [
        (
            "s3a://b/h",
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class o.a.h.fs.s3a.S3AFileSystem not found",
            ConfigError,
            "add --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.4.1",
        ),
        (
            "gs://b/h",
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"',
            ConfigError,
            "add --conf spark.jars.packages=com.google.cloud.bigdataoss:gcs-connector:",
        ),
        (
            "odd://b/h",
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "odd"',
            ConfigError,
            "spark.hadoop.fs.odd.impl=",
        ),
        (
            "odd://b/h",
            "org.apache.hadoop.fs.UnsupportedFileSystemException: No AbstractFileSystem configured for scheme: odd",
            ConfigError,
            "spark.hadoop.fs.AbstractFileSystem.odd.impl=",
        ),
        (
            "viewfs://c/h",
            "java.io.IOException: ViewFs: Cannot initialize: Empty Mount table in config for viewfs://c/",
            ConfigError,
            "spark.hadoop.fs.viewfs.mounttable.NAME.link./PATH",
        ),
        (
            "s3a://b/h",
            "java.nio.file.AccessDeniedException: s3a://b/h: getFileStatus on s3a://b/h: Status Code: 403\nmore",
            ConfigError,
            "spark.hadoop.fs.s3a.* in the table [conf]",
        ),
        (
            "hdfs://name/h",
            "o.a.h.security.AccessControlException: Permission denied: user=me, access=WRITE",
            ConfigError,
            "HADOOP_USER_NAME",
        ),
        (
            "s3a://b/h",
            "java.nio.file.AccessDeniedException: b: o.a.h.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials",
            None,
            "a role's keys may be there the next time",
        ),
        ("s3a://b/h", "java.net.UnknownHostException: b.s3.example", None, "start again, or name another address"),
        ("hdfs://nn-403/h", "java.net.ConnectException: Call From vm to nn-403:1 failed", None, "start again once"),
        (
            "hdfs://localhost:1/h",
            "java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1 failed on connection exception",
            None,
            "start again once the file system answers",
        ),
    ],
)
def test_an_error_of_hadoop_names_the_address_and_the_fix(address, said, status, fix):
    error = hadoops_failure(address, said, "3.4.1")
    assert isinstance(error, ConfigError) == (status is ConfigError)
    assert str(error).startswith(f"--out {address}: {said.partition(chr(10))[0]}; ")
    assert fix in str(error)
    assert "\n" not in str(error)
