"""Verdicts by sign and colour."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from primbench.compare.ratio import Verdict
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.report.signs import SIGNS, painted
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case

ALIKE = Measurement(batch_s=Samples(samples_s=[1e-3] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise"))


@pytest.fixture
def command(made_study: Callable[..., Results], tmp_path: Path) -> list[str]:
    """One that compares two places that are alike."""
    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")
    made = made_study(["host", "podman"], [case], lambda arm, case, pair: ALIKE)
    path = tmp_path / "study.jsonl"
    lines: list[Line] = [made.header, *made.workers, *made.records]
    path.write_bytes(b"".join(map(encode, lines)))
    return [sys.executable, "-P", "-m", "primbench", "compare", str(path)]


def on_a_terminal(command: list[str], **variables: str) -> str:
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    environment = {name: value for name, value in environment.items() if value or name != "NO_COLOR"}
    with subprocess.Popen(command, stdout=terminal, stdin=subprocess.DEVNULL, env=environment) as running:
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


def test_colour_is_for_terminals_alone_and_adds_nothing_else(command: list[str]) -> None:
    plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "  = equivalent" in plain
    coloured = on_a_terminal(command, NO_COLOR="", COLUMNS="1000")
    assert "\x1b[32m= equivalent" in coloured
    assert plain == re.sub(r"\x1b\[[0-9;]*m", "", coloured)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_it_is_not_wanted(variables: dict[str, str], command: list[str]) -> None:
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", on_a_terminal(command, **variables))
