"""Verdicts by sign and colour."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from primbench.compare.ratio import Verdict
from primbench.report.signs import SIGNS, painted

STUDY = Path(__file__).parents[1] / "fixtures/launches-one-after-the-other.jsonl.xz"
COMMAND = [sys.executable, "-m", "primbench", "compare", str(STUDY)]


def on_a_terminal(**variables: str) -> str:
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    environment = {name: value for name, value in environment.items() if value or name != "NO_COLOR"}
    with subprocess.Popen(COMMAND, stdout=terminal, stdin=subprocess.DEVNULL, env=environment) as running:
        os.close(terminal)
        shown = b""
        try:
            while read := os.read(controller, 65536):
                shown += read
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(controller)
    assert 0 == running.returncode
    return shown.decode().replace("\r\n", "\n")


def test_every_verdict_has_a_sign() -> None:
    assert set(get_args(Verdict)) == set(SIGNS)
    worse, better = SIGNS["slower"], SIGNS["faster"]
    assert 1 == list(SIGNS.values()).count(worse) == list(SIGNS.values()).count(better)


def test_colour_goes_on_with_a_verdict_and_no_further() -> None:
    verdict = "> slower, by\n              the mean"
    found = painted(f"a  batch  1 ms  {verdict}\n   wall   2 ms  takes longer\nb  batch  1 ms  = equivalent\n")
    shown = [(found.plain[span.start : span.end], span.style) for span in found.spans]
    assert [(verdict, "bold red"), ("= equivalent", "green")] == shown


def test_colour_is_for_terminals_alone_and_adds_nothing_else() -> None:
    plain = subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout
    assert "  = equivalent" in plain
    coloured = on_a_terminal(NO_COLOR="", COLUMNS="1000")
    assert "\x1b[32m= equivalent" in coloured
    assert plain == re.sub(r"\x1b\[[0-9;]*m", "", coloured)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_it_is_not_wanted(variables: dict[str, str]) -> None:
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", on_a_terminal(**variables))
