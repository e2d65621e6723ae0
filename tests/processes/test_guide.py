"""The module and the command of ``docs/how-to/use-all-cores.md``, word for word but for the addresses."""

from __future__ import annotations

import shlex

from kstreams_assign.adapters.confluent import ClusterAdmin
from tests.docs_site.pages import blocks
from tests.processes.supervised import Supervised
from tests.test_examples import last_values, produce
from tests.worker.app import PATIENCE_S

PAGE = "docs/how-to/use-all-cores.md"
WORDS = [b"to", b"be", b"or", b"not", b"to", b"be"] * 50


def test_the_application_of_the_page_counts_in_two_processes(broker, tmp_path, track):
    program, command = [block.text for block in blocks(PAGE) if block.verb == "run by"]
    assert "localhost:9092" in program
    name = "guide-word-count"
    for written, own in (
        ("localhost:9092", broker),
        ('"word-count"', f'"{name}"'),
        ('"words"', f'"{name}-in"'),
        ('"word-counts"', f'"{name}-out"'),
    ):
        program = program.replace(written, own)
    (tmp_path / "app.py").write_text(program, encoding="utf-8")
    ClusterAdmin(broker).create_topics({f"{name}-in": 2, f"{name}-out": 2}, PATIENCE_S)
    words = shlex.split(command.replace("127.0.0.1:8080", "127.0.0.1:0"))
    assert words.pop(0) == "kstreams-assign"
    supervised = track(Supervised(words, cwd=tmp_path))
    supervised.until_spread(2)
    produce(broker, f"{name}-in", WORDS)
    wanted = {word: b"%d" % WORDS.count(word) for word in set(WORDS)}
    assert last_values(broker, f"{name}-out", wanted) == wanted
    assert supervised.end() == 0
