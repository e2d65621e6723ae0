"""Progress of ``history follow``: lines of two threads, each whole."""

from __future__ import annotations

from kstreams_assign.history import live


def test_a_line_is_written_in_one_piece(monkeypatch):
    written = []

    class Pieces:
        @staticmethod
        def write(text: str) -> None:
            written.append(text)

        @staticmethod
        def flush() -> None:
            written.append("flush")

    monkeypatch.setattr("sys.stderr", Pieces)
    live.say("batch 0: 3 records")
    live.say("  still working on batch 1")
    assert written == ["batch 0: 3 records\n", "flush", "  still working on batch 1\n", "flush"]
