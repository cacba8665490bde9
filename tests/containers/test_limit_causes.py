"""What a quota of a container is called, and what is named as its cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .traces import in_words
from .verdicts import primbench, settled

pytestmark = pytest.mark.quiet

SUITE = "gemm = [{ m = 64, n = 64, k = 64 }]\n"
# Three periods of a quota, whatever is known by then: in one alone, it may hold back between two samples.
QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "300ms", "--max-time", "300ms")


@pytest.mark.parametrize("runtime", ["docker"], indirect=True)
def test_a_quota_is_slower_by_the_mean(
    runtime: str,
    tmp_path_factory: pytest.TempPathFactory,
    traces: Callable[[], list[str]],
    ahead_of_others: None,
) -> None:
    folder: Path = tmp_path_factory.mktemp("limits")
    (folder / "suite.toml").write_text(SUITE)
    arms = ["host", in_words(runtime, "cpus=0.2", "name=quota")]
    done = settled(folder / "study.jsonl", arms, folder / "suite.toml", *QUICK)
    assert 1 == done.returncode, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("Failed: ")
    compared = primbench("compare", folder / "study.jsonl", "--json", folder / "compared.json")
    assert done.stdout == compared.stdout
    (quota,) = json.loads((folder / "compared.json").read_text())["arms"]
    (case,) = quota["cases"]
    # Where this machine waits for CPUs as well, half of the samples may be held up, and the median says it first.
    assert "slower" == case["verdict"], done.stdout
    decided_by = case["decided_by"]
    assert decided_by in ("batch_mean_s", "batch_s"), done.stdout
    first, *_ = case["explanation"]["causes"]
    assert first.startswith("in quota alone: the CPU quota grants 0.2 of the ")
    assert ("  > slower, by the mean\n" in done.stdout) == (decided_by == "batch_mean_s"), done.stdout
