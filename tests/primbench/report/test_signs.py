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
from primbench.report.verdicts import SIGNS
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case

ALIKE = Measurement(batch_s=Samples(samples_s=[1e-3] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise"))


@pytest.fixture
def study(made_study: Callable[..., Results], tmp_path: Path) -> Callable[[str], list[str]]:
    """``study(name)``: a command that compares two places that are alike, the host and one of that name."""
    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")

    def named(name: str) -> list[str]:
        made = made_study(["host", f"podman:name={name}"], [case], lambda arm, case, pair: ALIKE, pairs=12)
        path = tmp_path / "study.jsonl"
        lines: list[Line] = [made.header, *made.workers, *made.records]
        path.write_bytes(b"".join(map(encode, lines)))
        return [sys.executable, "-P", "-m", "primbench", "compare", str(path)]

    return named


@pytest.fixture
def command(study: Callable[[str], list[str]]) -> list[str]:
    return study("podman")


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


def coloured(shown: str) -> dict[str, str]:
    """What is in colour, line by line, and how."""
    return {words: code for code, words in re.findall(r"\x1b\[([0-9;]+)m(.*?)\x1b\[0m", shown)}


def test_colour_goes_on_with_a_verdict_and_no_further(command: list[str]) -> None:
    found = coloured(on_a_terminal(command, NO_COLOR="", COLUMNS="66"))
    answer, *verdict = found
    assert ["1;32", "32", "32"] == list(found.values())
    assert "Nothing is slower, within a margin of 1.0%." == answer
    assert ["= equivalent,", "within 1.0%"] == [words.strip() for words in verdict]


def test_no_name_of_an_arm_is_taken_for_a_verdict_or_a_warning(study: Callable[[str], list[str]]) -> None:
    usual, *others = (
        [*coloured(on_a_terminal(study(name), NO_COLOR="", COLUMNS="1000")).items()]
        for name in ("podman", "> podman", "GPU", "!  ? x")
    )
    assert [usual] * 3 == others


def test_colour_is_for_terminals_alone_and_adds_nothing_else(command: list[str]) -> None:
    plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "  = equivalent" in plain
    coloured = on_a_terminal(command, NO_COLOR="", COLUMNS="1000")
    assert "\x1b[32m= equivalent" in coloured
    assert plain == re.sub(r"\x1b\[[0-9;]*m", "", coloured)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_it_is_not_wanted(variables: dict[str, str], command: list[str]) -> None:
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", on_a_terminal(command, **variables))
