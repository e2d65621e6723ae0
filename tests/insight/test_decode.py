"""``decode``: bytes in common forms, and a status that shows whether they could be read."""

from __future__ import annotations

import io
import json
import sys
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.insight.decode import read_bytes
from tests.insight.run import Cli

ASSIGNMENT = bytes.fromhex("000000010000000000000000")


@pytest.mark.parametrize(
    ("word", "data"),
    [
        ("00ff", b"\x00\xff"),
        ("0x00FF", b"\x00\xff"),
        ("00 ff", b"\x00\xff"),
        ("00:ff", b"\x00\xff"),
        ("AP8=", b"\x00\xff"),
        ("deadbeef", b"\xde\xad\xbe\xef"),
        (b64encode(ASSIGNMENT).decode(), ASSIGNMENT),
        ("0000000b" * 75, bytes.fromhex("0000000b") * 75),  # no file may have so long a name
    ],
)
def test_hex_and_base64_are_distinguished(word, data, tmp_path: Path):
    assert read_bytes(word).data == data
    written = tmp_path / "data"
    written.write_text(word + "\n")
    assert read_bytes(str(written)).data == data


def test_a_file_and_standard_input_may_hold_the_bytes_themselves(tmp_path: Path, monkeypatch):
    raw = tmp_path / "raw"
    raw.write_bytes(ASSIGNMENT)
    assert read_bytes(str(raw)).data == ASSIGNMENT
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(ASSIGNMENT)))
    assert read_bytes("-").data == ASSIGNMENT


@pytest.mark.parametrize("word", ["", "0", "no bytes!", "A", "!" * 300, "!" * 5_000])
def test_what_is_neither_is_refused(word):
    with pytest.raises(ConfigError, match="neither hex nor base64, nor a file"):
        read_bytes(word)


def test_the_command_prints_version_and_dialect(run: Cli):
    facts = run("decode", "assignment", ASSIGNMENT.hex()).facts
    assert (facts["message"], facts["dialect"], facts["version"]) == ("AssignmentInfo", "apache", 1)
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("assignment", "00000001"), 1, "AssignmentInfo"),
        (("assignment", "00000001"), 1, "(00000001 was read as hex)"),
        (("assignment", "zzzz"), 1, "-12484 is below 0 (zzzz was read as base64)"),
        (("subscription", "0000000b0000"), 1, "SubscriptionInfo"),
        (("assignment", "nothing like it!"), 2, "neither hex nor base64"),
        (("plan", "00"), 2, "'plan' cannot be decoded"),
        (("assignment", "00", "--dialect", "java"), 2, "dialect 'java'"),
    ],
)
def test_damaged_bytes_and_wrong_words_have_their_statuses(run: Cli, words, status, said):
    done = run("decode", *words)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
