"""`primbench bound` on the command line: a step of a few calls, dosed for a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.backends import missing
from primbench.doses import dosing

if TYPE_CHECKING:
    from click.testing import Result

STEP = """
title = "parts of a step"
gemm = [{ set = "parts", phase = "forward", count = 3, m = 16, n = 16, k = 16 }]
elementwise = [{ set = "parts", phase = "optimizer", count = 5, elements = 64 }]
[captured]
step = "step 2 of a.py"
threads = 1
times_s = [0.5, 0.25, 1.0]
left_out = [{ name = "noise", calls = 2, reason = "no such operator" }]
"""
WITHOUT_TORCH = missing("torch")


@pytest.fixture
def step(tmp_path: Path) -> Path:
    file = tmp_path / "step.toml"
    file.write_text(STEP)
    return file


@pytest.mark.wheel
@pytest.mark.skipif(WITHOUT_TORCH is not None, reason=str(WITHOUT_TORCH))
def test_a_step_is_dosed_and_run_in_a_place(
    step: Path, tmp_path: Path, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pair of each tells of no scatter, so that nothing is foretold."""
    monkeypatch.setattr(dosing, "PAIRS", 1)
    results, page = tmp_path / "bound.jsonl", tmp_path / "bound.html"
    found = invoke(
        "bound", step, "--device", "cpu", "--time-budget", "1ms", "--in", "host:nice=5", "-o", results,
        "--json", "-", "--report", page,
    )  # fmt: skip
    assert 0 == found.exit_code, found.output
    assert "calls, 1: undosed" in found.stderr
    bounds = json.loads(found.stdout)
    assert (8, 2, 0.5, 1) == tuple(bounds[key] for key in ("calls", "left_out_calls", "captured_s", "threads"))
    assert bounds["time_s"] > 0
    calls, *others = bounds["slopes"]
    assert ("calls", 1, 4.0) == (calls["factor"], calls["pairs"], calls["largest_dose"])
    assert calls["low"] < calls["share"] < calls["high"]
    assert {"not told"} == {each["verdict"] for each in others}
    assert "with one thread it uses no more than one CPU" in {each["reason"] for each in others}
    (place,) = bounds["places"]
    assert ("host:nice=5", 1, None) == (place["place"], place["pairs"], place["is_within"])
    assert "too few pairs" in place["reason"]
    assert place["measured"] > 0
    assert "host:nice=5" in page.read_text()
    assert 5 == sum('"status":"ok"' in line for line in results.read_text().splitlines())  # 1 dosed, 2 probes, 2 steps
    shown = invoke("show", results).stdout
    assert "step.toml" in shown
    assert "eN" not in shown  # as calls are encoded
    again = tmp_path / "again.html"
    assert 0 == invoke("report", results, "-o", again).exit_code
    assert bounds["headline"] in again.read_text()


@pytest.mark.wheel
@pytest.mark.skipif(WITHOUT_TORCH is not None, reason=str(WITHOUT_TORCH))
def test_it_is_said_why_one_process_makes_a_step_of_several_ranks(
    tmp_path: Path, invoke: Callable[..., Result]
) -> None:
    file = tmp_path / "step.toml"
    more = 'allreduce = [{ set = "parts", phase = "backward", bytes = 1024, ranks = 10000 }]'
    file.write_text(STEP.replace("[captured]", f"{more}\n[captured]"))
    found = invoke("bound", file, "--device", "cpu", "--time-budget", "1ms", "--json", "-")
    assert 0 == found.exit_code, found.output
    assert "one process makes the step, without its collectives: 10000 ranks need a CPU each" in found.stderr
    bounds = json.loads(found.stdout)
    assert (1, 8, 3) == tuple(bounds[key] for key in ("ranks", "calls", "left_out_calls"))


def test_what_is_no_step_and_no_place(
    step: Path, tmp_path: Path, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    other = tmp_path / "other.toml"
    other.write_text('title = "a suite"\ngemm = [{ m = 16, n = 16, k = 16 }]\n')
    for words, said in (
        ((tmp_path / "none.toml",), "none.toml': no such file; those that are shipped"),
        ((other,), "no parts of a step, which `primbench capture` writes"),
        ((step, "--in", "host:nice=5", "--in", "host:nice=5"), "2 arms are called host:nice=5"),
        ((step, "--in", "nowhere"), "runtime 'nowhere'"),
        ((step, "--in", "runsc"), "--in runsc: runsc is not installed: see `primbench arms`"),
        ((step, "--json", step), "asked to hold two things"),
    ):
        found = invoke("bound", *words)
        assert 2 == found.exit_code
        assert said in found.stderr
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "2 processes by torchrun" in invoke("bound", step).stderr
