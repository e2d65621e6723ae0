"""The command line as a script sees it: words in; status, facts and complaints out."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

import pytest

from kstreams_assign import cli


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        assert self.status == 0, self.err
        return dict(json.loads(self.out))


class Cli:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *words: object) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["kstreams-assign", *map(str, words)])
        status = self._status()
        said = self._capsys.readouterr()
        return Done(status, said.out, said.err)

    @staticmethod
    def _status() -> int:
        try:
            cli.main()
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0
