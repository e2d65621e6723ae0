"""The broker's jars: locked by SHA-256, fetched once, then served from a cache.

``jars.lock`` names every jar with its digest, so nothing is resolved at run time and every cached jar is complete: a
jar is fetched into a folder of its own, checked, and only then renamed into the cache. An interrupted fetch keeps the
complete jars; the next start fetches the rest. jgo fetches: it knows the repositories.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, as_completed, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from kstreams_assign.adapters.cache import cache_dir
from kstreams_assign.errors import LocalBrokerError, missing_extra

if TYPE_CHECKING:
    from jgo.maven import MavenContext

KAFKA_VERSION = "4.3.1"

_LOCK = Path(__file__).with_name("jars.lock")
_PAUSES_S = (1, 2, 4)
"""Before each further try: a server that breaks connections may be busy."""
_PARALLEL_FETCHES = 6
_SILENCE_S = 30
_LAST_TRIES_S = 1
_REPORT_EVERY = 5

Progress = Callable[[str], None]


class Jar(NamedTuple):
    """One locked jar: Maven coordinates and the SHA-256 of its bytes, in hex."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def to_stderr(line: str) -> None:
    """Print progress as the command line does."""
    print(line, file=sys.stderr, flush=True)


def locked_jars(lock: Path = _LOCK) -> tuple[Jar, ...]:
    """Return the jars that a lock file names: by default all that the broker needs."""
    return tuple(_locked_jar(line) for line in lock.read_text(encoding="utf-8").splitlines())


def _locked_jar(line: str) -> Jar:
    coordinates, sha256 = line.split(" ")
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, sha256)


def class_path(
    jars: Sequence[Jar] | None = None,
    *,
    cache: Path | None = None,
    progress: Progress = to_stderr,
    repositories: Mapping[str, str] | None = None,
) -> list[Path]:
    """Return the jars as files; fetch missing ones first.

    If all are cached, this uses no network. ``repositories`` (name -> address) replaces those of jgo. Raises
    ``LocalBrokerError`` if a jar cannot be fetched or differs from the lock file, ``ExtraMissing`` if the packages that
    fetch are not installed.
    """
    wanted = locked_jars() if jars is None else jars
    folder = (cache or cache_dir()) / "jars"
    missing = [jar for jar in wanted if not (folder / jar.file_name).exists()]
    if missing:
        _fetch_all(missing, folder, progress, repositories)
    return [folder / jar.file_name for jar in wanted]


def _fetch_all(missing: list[Jar], folder: Path, progress: Progress, repositories: Mapping[str, str] | None) -> None:
    progress(f"fetching {len(missing)} jars into {folder} (once)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            # A thread that is left behind may write while its folder is deleted.
            tempfile.TemporaryDirectory(prefix=".partial-", dir=folder, ignore_cleanup_errors=True) as partial,
            _trusting_the_system(),
        ):
            context = _maven(Path(partial), repositories)
            with _in_parallel(lambda jar, ended: _fetch(context, jar, folder, _PAUSES_S, ended), missing) as sizes:
                _report(sizes, len(missing), progress)
    except OSError as error:
        raise LocalBrokerError(_broken_off(f"{folder} cannot be written to", folder, error)) from error


@contextmanager
def _in_parallel(fetch: Callable[[Jar, Event], int], jars: Sequence[Jar]) -> Iterator[Iterator[int]]:
    """Fetch on several threads; yield the sizes as jars arrive, or raise the error of the first that fails.

    The block's end sets the event of ``fetch``. A thread that a silent server keeps waiting then ends by itself; it is
    a daemon, so the process can end before.
    """
    ended = Event()
    sizes: list[Future[int]] = [Future() for _ in jars]
    remaining = iter(list(zip(jars, sizes, strict=True)))  # shared: each thread takes the next

    def run() -> None:
        for jar, size in remaining:
            try:
                size.set_result(fetch(jar, ended))
            except BaseException as error:  # noqa: BLE001  # the future raises it
                size.set_exception(error)

    try:
        for _ in range(min(_PARALLEL_FETCHES, len(jars))):
            Thread(target=run, name="jars", daemon=True).start()
        yield (size.result() for size in as_completed(sizes))
    finally:
        ended.set()
        wait(sizes, _LAST_TRIES_S)


def _report(sizes: Iterator[int], total: int, progress: Progress) -> None:
    fetched_bytes = 0
    for number, size in enumerate(sizes, start=1):
        fetched_bytes += size
        if number == total or number % _REPORT_EVERY == 0:
            progress(f"  {number} of {total} jars, {fetched_bytes / 1e6:.1f} MB")


def _fetch(context: MavenContext, jar: Jar, folder: Path, pauses_s: Sequence[float], ended: Event) -> int:
    """Fetch one jar into the cache, and again after each pause if it fails; return its size in bytes.

    Raises ``CancelledError`` instead of a try after ``ended``.
    """
    if ended.is_set():
        raise CancelledError
    artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact()
    try:
        return _adopt(artifact.resolve(), jar, folder)
    # requests' errors are OSErrors; jgo raises RuntimeError for a jar that no repository has.
    except (OSError, RuntimeError) as error:
        if not pauses_s:
            raise LocalBrokerError(_broken_off(f"fetching {jar.file_name} failed", folder, error)) from error
        _forget(artifact.cached_path)
    _pause(pauses_s[0], ended)
    return _fetch(context, jar, folder, pauses_s[1:], ended)


def _pause(seconds: float, ended: Event) -> None:
    ended.wait(seconds)


def _adopt(fetched: Path, jar: Jar, folder: Path) -> int:
    content = fetched.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != jar.sha256:
        raise OSError(f"{jar.file_name} has SHA-256 {sha256}, locked is {jar.sha256}")
    shutil.move(fetched, folder / jar.file_name)
    return len(content)


def _forget(path: Path | None) -> None:
    """Delete a partly fetched jar from its folder; jgo would take it for complete."""
    if path is not None:
        path.unlink(missing_ok=True)


def _broken_off(what: str, folder: Path, error: Exception) -> str:
    return (
        f"{what}: {error}. What arrived whole is kept in {folder}; start again to fetch the rest, "
        "or copy the jars there by hand, or name another folder with KSTREAMS_ASSIGN_CACHE"
    )


def _maven(partial: Path, repositories: Mapping[str, str] | None) -> MavenContext:
    try:
        from jgo.maven import MavenContext
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    return MavenContext(
        repo_cache=partial,
        local_repos=[],
        remote_repos=dict(repositories) if repositories else None,
        timeout=_SILENCE_S,
    )


@contextmanager
def _trusting_the_system() -> Iterator[None]:
    """Make TLS trust the system's store: a company's own authority is there, not in certifi's."""
    try:
        import truststore
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    truststore.inject_into_ssl()
    try:
        yield
    finally:
        truststore.extract_from_ssl()
