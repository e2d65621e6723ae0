"""The package's cache: where it is, and that an archive of classes gets there whole or not at all."""

from __future__ import annotations

import pytest

from kstreams_assign.adapters.cache import archive_of, archive_options, cache_dir, new_archive
from kstreams_assign.errors import SparkError


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("KSTREAMS_ASSIGN_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
    monkeypatch.delenv("KSTREAMS_ASSIGN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "kstreams-assign"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "kstreams-assign"


def test_another_java_or_other_jars_have_another_archive(tmp_path):
    for name in ("java-1", "java-2"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("java-1")
    calls = [("java-1", "a.jar:b.jar"), ("java-2", "a.jar:b.jar"), ("java-1", "a.jar")]
    assert len({archive_of(tmp_path / java, jars) for java, jars in calls}) == 3
    assert archive_of(tmp_path / "link", "a.jar") == archive_of(tmp_path / "java-1", "a.jar")


def test_it_is_written_elsewhere_and_then_moved_into_place(tmp_path):
    archive = tmp_path / "archives" / "a.jsa"
    with new_archive(archive, SparkError) as written:
        written.write_bytes(b"half")
        assert archive_options(archive) == []
        written.write_bytes(b"whole")
    assert archive.read_bytes() == b"whole"
    assert archive_options(archive) == [f"-XX:SharedArchiveFile={archive}"]
    assert list(archive.parent.iterdir()) == [archive]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SparkError])
def test_nothing_is_left_of_one_that_was_interrupted(interruption, tmp_path):
    archive = tmp_path / "archives" / "a.jsa"

    def make_half() -> None:
        with new_archive(archive, SparkError) as written:
            written.write_bytes(b"half")
            raise interruption

    with pytest.raises(interruption):
        make_half()
    assert list(archive.parent.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(SparkError, match=r"a\.jsa cannot be written: .*KSTREAMS_ASSIGN_CACHE"),
        new_archive(tmp_path / "file" / "a.jsa", SparkError),
    ):
        pass
