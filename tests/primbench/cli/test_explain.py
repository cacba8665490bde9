"""`primbench explain` and `primbench capture` on the command line, without torch."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.errors import INTERRUPTED
from primbench.results.file import read

from ...ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from click.testing import Result

    from primbench.spec.case import Case

OWN = """
title = "{title}"
gemm = [
  {{ set = "parts", phase = "forward", count = 3, m = 16, n = 16, k = 16 }},
  {{ set = "parts", phase = "backward", count = 2, m = 256, n = 256, k = 256 }},
]
captured = {{ step = "step 2 of {title}.py", threads = {threads}, times_s = [0.5, 0.25, 1.0], place = {{ cpus = 99 }} }}
"""
SHORT = ("--backend", "numpy", "--device", "cpu", "--min-time", "1ms", "--max-time", "5ms", "-q")


def test_ranks_of_a_launcher_explain_a_step_together_and_the_first_reports(tmp_path: Path) -> None:
    step = tmp_path / "step.toml"
    summed = '[[allreduce]]\nset = "parts"\nphase = "backward"\ncount = 2\nbytes = 1024\nranks = 2\n'
    step.write_text(OWN.format(title="ranks", threads=1) + summed)
    command = [sys.executable, "-P", "-m", "primbench", "explain", str(step), *SHORT]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    said, noted = zip(*(each.communicate(timeout=60) for each in ranks), strict=True)
    assert [0, 0] == [each.returncode for each in ranks], said
    assert ("allreduce" in said[0], "") == (True, said[1])
    assert ["with 1 thread" in each for each in noted] == [True, False]
    assert "not measured" not in said[0]


def test_a_file_that_is_no_trace_is_refused_before_parts_are_measured(
    invoke: Callable[..., Result], tmp_path: Path
) -> None:
    step, trace = tmp_path / "a.toml", tmp_path / "trace.json"
    step.write_text(OWN.format(title="a", threads=1))
    trace.write_text("{")
    found = invoke("explain", step, trace, "--backend", "numpy")
    assert 2 == found.exit_code
    assert "no trace of torch.profiler" in found.stderr
    assert "cases" not in found.stderr


def test_several_steps_in_one_run_and_again_from_its_file(invoke: Callable[..., Result], tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.toml" for name in ("a", "b")]
    for file in files:
        file.write_text(OWN.format(title=file.stem, threads=1))
    results = tmp_path / "results.jsonl"
    first = invoke("explain", *files, *SHORT, "-o", results, "--json", "-")
    assert 0 == first.exit_code
    assert "with 1 thread of CPU libraries, as it was captured, unless --threads says otherwise" in first.stderr
    records = read(results).records
    assert {1} == {record.case.placement.threads for record in records}
    assert ["2", "3"] * 2 == [record.case.labels["count"] for record in records]  # first what takes most of a step
    steps = json.loads(first.stdout)
    assert [f"step 2 of {file.stem}.py ({file})" for file in files] == [each["step"] for each in steps]
    for step in steps:
        (number,) = step["numbers"]
        assert (5, 0.5) == (step["calls"], number["step_s"])
        assert ["gemm", "unexplained"] == [row["name"] for row in step["rows"]]
        assert abs(0.5 - sum(row["seconds"] for row in step["rows"])) < 1e-9
    assert [f"cpus 99 there, {len(os.sched_getaffinity(0))} here"] == steps[0]["timed"]["elsewhere"]
    compressed = tmp_path / "results.jsonl.gz"
    compressed.write_bytes(gzip.compress(results.read_bytes()))
    again = json.loads(invoke("explain", compressed, "--json", "-").stdout)
    assert [each["timed"] for each in steps] == [each["timed"] for each in again]
    assert [each["numbers"][0]["parts_s"] for each in steps] == [each["numbers"][0]["parts_s"] for each in again]
    ran = invoke("run", files[0], *SHORT)
    assert "with 1 thread of CPU libraries" in ran.stderr
    totals = ran.stdout.splitlines()
    assert ["set", "calls", "time", "enqueue", "by", "primitive"] == totals[-2].split()
    assert ["parts", "5"] == totals[-1].split()[:2]
    assert totals[-1].endswith("gemm 100.0%")


@pytest.mark.parametrize(
    ("here", "there", "places"),
    [
        ('"backend":"numpy"', '"backend":"torch"', ("numpy", "torch")),
        ('"threads":1}', '"threads":null}', ("threads 1", "threads default")),
    ],
)
def test_steps_of_several_places_are_not_mixed(
    here: str, there: str, places: tuple[str, ...], invoke: Callable[..., Result], tmp_path: Path
) -> None:
    """A results file may hold several of each case, as of a study's arms: each place is a step of its own."""
    file, results = tmp_path / "own.toml", tmp_path / "results.jsonl"
    file.write_text(OWN.format(title="own", threads=1))
    assert 0 == invoke("explain", file, *SHORT, "-o", results).exit_code
    lines = results.read_text().splitlines()
    elsewhere = [line.replace(here, there) for line in lines if '"kind":"record"' in line]
    results.write_text("\n".join([*lines, *elsewhere, ""]))
    steps = json.loads(invoke("explain", results, "--json", "-").stdout)
    assert [f"step 2 of own.py, {place}" for place in places] == [each["step"] for each in steps]
    assert [5, 5] == [each["calls"] for each in steps]
    page = tmp_path / "page.html"
    assert 0 == invoke("report", results, "-o", page).exit_code
    assert f"The step {places[1]}: where its time goes" in page.read_text()


def test_a_part_that_fails_is_told_and_counts(invoke: Callable[..., Result], tmp_path: Path) -> None:
    """After what was measured has been shown, as `primbench run` has it, and whenever the file is explained."""
    file, results = tmp_path / "own.toml", tmp_path / "results.jsonl"
    file.write_text(OWN.format(title="own", threads=99_999))
    found = invoke("explain", file, *SHORT, "--timeout", "1ms", "-o", results, "--json", "-")
    again = invoke("explain", results, "--json", "-")
    assert (1, 1) == (found.exit_code, again.exit_code)
    assert "captured with 99999 threads, more than the" in found.stderr
    assert {None} == {record.case.placement.threads for record in read(results).records}
    for each in (found, again):
        (step,) = json.loads(each.stdout)
        assert 0 < sum(step["unmeasured"].values())


def test_a_part_that_cannot_be_run_leaves_what_the_others_take(invoke: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    half = '{ set = "parts", phase = "backward", count = 2, label = "mm", m = 8, n = 8, k = 8, dtype = "float16" },'
    file.write_text(OWN.format(title="own", threads=1).replace("]", f"  {half}\n]", 1))
    found = invoke("explain", file, *SHORT)
    assert 0 == found.exit_code
    assert "2 calls not measured: mm: skipped: NumPy sums float16 in float16" in found.stdout
    assert "<= " in next(line for line in found.stdout.splitlines() if "unexplained  " in line)


def test_parts_that_a_budget_left_out_are_told_and_not_taken_for_unexplained_time(
    invoke: Callable[..., Result], tmp_path: Path
) -> None:
    file, results = tmp_path / "own.toml", tmp_path / "results.jsonl"
    file.write_text(OWN.format(title="own", threads=1))
    found = invoke("explain", file, *SHORT, "--time-budget", "1us", "-o", results, "--json", "-")
    assert 0 == found.exit_code
    (step,) = json.loads(found.stdout)
    assert 3 == sum(step["unmeasured"].values()), "calls of the part that takes less of the step"
    assert "Not measured within --time-budget: 1 case (1 of gemm)." in found.stderr
    assert f"--resume {results}" in found.stderr
    rest = invoke("explain", file, *SHORT, "--resume", results, "--json", "-")
    assert {} == json.loads(rest.stdout)[0]["unmeasured"]


def test_an_interrupt_is_answered_by_what_was_measured_until_then(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupting(cases: Iterable[Case], shown: object) -> Iterator[Case]:
        yield next(iter(cases))
        raise KeyboardInterrupt

    file = tmp_path / "own.toml"
    file.write_text(OWN.format(title="own", threads=1).replace("captured = {", "captured = { parts = 5,"))
    monkeypatch.setattr("primbench.cli.measuring.announced", interrupting)
    found = invoke("explain", file, *SHORT, "--json", tmp_path / "told.json")
    assert INTERRUPTED == found.exit_code
    assert "Stopped after 1 of 2 cases." in found.stderr
    (step,) = json.loads((tmp_path / "told.json").read_text())
    assert {"captured, but not in these results": 3} == step["unmeasured"]
    assert "3 of its calls were not measured" in found.stdout


def test_requests_that_mean_nothing(refusal: Callable[..., str], measured: tuple[Path, Result], tmp_path: Path) -> None:
    step, script = tmp_path / "step.toml", tmp_path / "own.py"
    script.write_text("")
    assert "no parts of a step" in refusal("explain", measured[0])
    results = tmp_path / "results.jsonl"
    assert "bert-base: no parts of a step" in refusal("explain", "bert-base", "-o", results)
    assert not results.exists(), "nothing is measured for it"
    for threads in (1, 2):
        (tmp_path / f"{threads}.toml").write_text(OWN.format(title="own", threads=threads))
    assert "captured with 1 and 2 threads" in refusal("explain", tmp_path / "1.toml", tmp_path / "2.toml")
    assert "no such script" in refusal("capture", "none.py", "-o", step)
    assert "--batch-size: of model:NAME" in refusal("capture", script, "-o", step, "--batch-size", 2)
    assert "are for scripts" in refusal("capture", "model:mnist_cnn", "-o", step, "--step", 3)
    assert "network='none'" in refusal("capture", "model:none", "-o", step)
    assert "asked to hold two things" in refusal("capture", script, "-o", script)
    assert "exists; replace it with --overwrite" in refusal("capture", script, "-o", tmp_path / "1.toml")
    assert not step.exists()
