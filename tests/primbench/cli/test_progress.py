from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.cli.estimate import say_how_long, say_how_long_it_would_take
from primbench.cli.progress import progress
from primbench.measurement import Measurement, Samples
from primbench.report import layout
from primbench.results.record import Record
from primbench.spec.case import Case

if TYPE_CHECKING:
    import pytest

CASE = Case(
    primitive="gemm", parameters={"m": 2, "n": 3, "k": 4}, backend="numpy", device="cpu", arm="podman", process=1
)
NAME = "pair 2, podman: gemm m=2 n=3 k=4 float32 on numpy cpu"
SENTENCE = "podman runs nothing with numpy on cpu: [bold]:warning:\nno such file " + "or folder " * 20
SAID = " ".join(("podman runs nothing with numpy on cpu: [bold]:warning: no such file " + "or folder " * 20).split())
WRAPPED = layout.wrapped(SAID, 80).splitlines()


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
            shown.finish(done())
            shown.announce(CASE)
    said = b""
    with contextlib.suppress(OSError):  # EIO is the end
        while True:
            said += os.read(ours, 1 << 16)
    os.close(ours)
    return said.decode()


def test_a_sentence_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(monkeypatch)
    assert WRAPPED == [line for line in said if "folder" in line], "no word is broken"


def test_cases_that_follow_beyond_those_known_of_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ["0/1", "1/2"] == sorted(set(re.findall(r"\d/\d", written(monkeypatch, total=1))))


def test_a_line_a_case_where_workers_write_between(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [NAME, *WRAPPED, NAME, ""] == told(monkeypatch, verbose=True)


def test_quiet_leaves_the_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*WRAPPED, ""] == told(monkeypatch, quiet=True)


def test_nothing_but_sentences_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(2, quiet=False, verbose=False) as shown:
        shown.announce(CASE)
        shown.tell(SENTENCE)
    assert f"{SAID} \n" == capsys.readouterr().err


def done() -> Record:
    found = Samples(samples_s=[1e-3] * 7, calls_per_sample=1, taken_by="host clock", stopped="count")
    return Record(
        case=CASE, status="ok", measurement=Measurement(batch_s=found, flop=10**6), started_utc="", duration_s=1.0
    )


def test_a_case_that_is_done_stands_above_the_bar_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{NAME}: batch 1.0000 ms, 1\n  GFLOP/s" in "\n".join(told(monkeypatch))


def test_a_file_hears_now_and_then_how_far_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 30.0, 150.0, 160.0])
    monkeypatch.setattr("primbench.cli.progress.time.monotonic", lambda: next(times))
    with progress(8, quiet=False, verbose=False) as shown:
        for _ in range(3):
            shown.finish(done())
    assert "2 of 8 cases after 2.5 min, about 7.5 min left\n" == capsys.readouterr().err


def test_long_runs_say_about_how_long(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    load = [1.0]
    monkeypatch.setattr("os.getloadavg", lambda: (load[0], 9.0, 9.0))
    say_how_long([CASE] * 40, None)
    say_how_long([CASE] * 40, 60.0)
    say_how_long([CASE] * 640, None)
    dry = replace(CASE, method=replace(CASE.method, dry_run=True))
    say_how_long_it_would_take([replace(done(), case=dry)] * 160)
    say_how_long([dry] * 400, None)
    load[0] = 7.0
    say_how_long([CASE] * 40, 60.0)
    assert [
        "40 cases: about 46.7 s; --time-budget 1.0 min suffices",
        "640 cases: about 12.3 min",
        "timing these 160 cases would take about 5.5 min",
        "40 cases: about 46.7 s, 1.6 min on a machine as busy as this one; --time-budget 1.0 min ends it before",
    ] == capsys.readouterr().err.splitlines()
