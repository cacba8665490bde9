from __future__ import annotations

import contextlib
import os
import re
import sys

import pytest

from primbench.cli.progress import progress
from primbench.spec.case import Case

CASE = Case(primitive="gemm", parameters={"m": 2}, backend="numpy", device="cpu", arm="podman", process=1)
NAME = "pair 2, podman: gemm 2 on numpy cpu"
SENTENCE = "podman runs nothing with numpy on cpu: [bold]:warning:\nno such file " + "or folder " * 20
SAID = "podman runs nothing with numpy on cpu: [bold]:warning: no such file " + "or folder " * 20


def told(monkeypatch: pytest.MonkeyPatch, **how: bool) -> list[str]:
    """Lines of a terminal, what was wiped left out, in which a sentence was told between two cases."""
    lines = written(monkeypatch, **how).split("\r\n")
    return [re.sub(r".*\x1b\[2K|\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in lines]


def written(monkeypatch: pytest.MonkeyPatch, total: int = 2, **how: bool) -> str:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress(total, quiet=how.get("quiet", False), verbose=how.get("verbose", False)) as shown:
            shown.announce(CASE)
            shown.tell(SENTENCE)
            shown.announce(CASE)
    said = b""
    with contextlib.suppress(OSError):  # EIO is the end
        while True:
            said += os.read(ours, 1 << 16)
    os.close(ours)
    return said.decode()


def test_a_sentence_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(monkeypatch)
    assert SAID in said
    assert 1 == len([line for line in said if "or folder" in line])


def test_cases_that_follow_beyond_those_known_of_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ["0/1", "1/2"] == sorted(set(re.findall(r"\d/\d", written(monkeypatch, total=1))))


def test_a_line_a_case_where_workers_write_between(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [NAME, SAID, NAME, ""] == told(monkeypatch, verbose=True)


def test_quiet_leaves_the_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [SAID, ""] == told(monkeypatch, quiet=True)


def test_nothing_but_sentences_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(2, quiet=False, verbose=False) as shown:
        shown.announce(CASE)
        shown.tell(SENTENCE)
    assert f"{SAID}\n" == capsys.readouterr().err
