"""Files of other programs as series: excerpts of what they wrote, and made ones in their form."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from click.testing import Result

COMMITS = [f"{number:08x}" for number in range(24)]
TIMES_S = [1e-3 * (1 + 0.002 * (number % 5)) * (1.2 if number >= 14 else 1) for number in range(24)]
DAY_MS = 86_400_000
FIRST_MS = 1_600_000_000_000


def asv_1(number: int) -> dict[str, Any]:
    """The form of before version 2: of emsig/empymod-bench, results/dtr-laptop, with times of our own."""
    return {
        "results": {"kernel.Kernel.time_fields": {"result": [TIMES_S[number], None], "params": [["'Small'", "'Big'"]]},
                    "kernel.time_plain": TIMES_S[number], "kernel.peakmem_plain": 7},
        "params": {"arch": "x86_64", "cpu": "Intel(R) Core(TM) i7-6600U CPU @ 2.60GHz", "machine": "dtr-laptop",
                   "num_cpu": "4", "os": f"Linux 5.4.0-{48 + (number >= 14)}-generic", "ram": "1", "python": "3.8"},
        "requirements": {}, "commit_hash": COMMITS[number], "date": FIRST_MS + number * DAY_MS,
        "env_name": "conda-py3.8", "python": "3.8", "profiles": {}, "version": 1,
        "started_at": {"kernel.time_plain": FIRST_MS + number * DAY_MS},
        "benchmark_version": {"kernel.time_plain": "f98f1365"},
    }  # fmt: skip


def asv_2(number: int) -> dict[str, Any]:
    """The form of version 2, of django/django-asv, results/ubuntu-latest, with times of our own."""
    columns = ["result", "params", "version", "started_at", "duration", "samples", "profile"]
    row = [[TIMES_S[number]], [], "87acd4d2", FIRST_MS + number * DAY_MS, None]
    return {
        "commit_hash": COMMITS[number], "env_name": "conda-py3.8", "date": FIRST_MS + number * DAY_MS,
        "params": {"machine": "ubuntu-latest", "python": "3.8"}, "python": "3.8", "requirements": {}, "env_vars": {},
        "result_columns": columns, "version": 2, "durations": {},
        "results": {"form.FormClean.time_form_clean": row, "form.time_none": [None, [], "f2958", 1]},
    }  # fmt: skip


def pytest_benchmark(number: int) -> dict[str, Any]:
    """The form of meadsteve/lagom, .benchmarks, with times of our own."""
    return {
        "machine_info": {"node": f"fv-az105-{number}", "machine": "x86_64", "release": "5.11.0-1020-azure",
                         "python_version": "3.9.7" if number < 14 else "3.9.8", "system": "Linux",
                         "cpu": {"brand_raw": "Intel(R) Xeon(R) CPU E5-2673 v4 @ 2.30GHz", "count": 2}},
        "commit_info": {"id": COMMITS[number], "time": "2021-11-06T18:41:29+01:00"},
        "benchmarks": [{"fullname": "tests/test_basic.py::test_plain", "stats": {"median": TIMES_S[number]}}],
        "datetime": f"2021-11-{1 + number:02}T18:41:29", "version": "3.4.1",
    }  # fmt: skip


def google_benchmark(number: int) -> dict[str, Any]:
    entry = {"name": "BM_Copy/8", "run_type": "iteration", "cpu_time": 1.0, "time_unit": "us"}
    times = [{**entry, "real_time": 1e6 * TIMES_S[number] * factor} for factor in (0.99, 1.0, 1.5)]
    mean = {**entry, "name": "BM_Copy/8_mean", "run_type": "aggregate", "real_time": 1.0}
    context = {"date": f"2026-11-{1 + number:02}T18:41:29+00:00", "host_name": "box", "num_cpus": 8,
               "library_build_type": "debug" if number >= 14 else "release"}  # fmt: skip
    return {"context": context, "benchmarks": [*times, mean]}


def nccl_json(number: int) -> dict[str, Any]:
    """As src/util.cu of nccl-tests writes it."""
    body = {"time": 1e6 * TIMES_S[number], "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0}
    row = {"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "    -1"}
    return {
        "version": 3, "start_time": f"2026-11-{1 + number:02} 18:41:29", "args": ["./build/all_reduce_perf", "-b", "8"],
        "env": ["HOME=/root", "NCCL_ALGO=Ring"], "nccl_version": 22807 if number < 14 else 22900,
        "config": {"nthreads": 1, "devices": [{"rank": each, "device_info": "NVIDIA H100"} for each in range(2)]},
        "results": [row | {"out_of_place": body, "in_place": None}],
    }  # fmt: skip


FORMS: dict[str, tuple[Callable[[int], dict[str, Any]], list[str], list[str]]] = {
    "asv, version 1": (
        asv_1,
        ["kernel.Kernel.time_fields('Small') in conda-py3.8", "kernel.time_plain in conda-py3.8"],
        ["asv.os", "labels.commit"],
    ),
    "asv, version 2": (asv_2, ["form.FormClean.time_form_clean in conda-py3.8"], ["labels.commit"]),
    "pytest-benchmark": (
        pytest_benchmark,
        ["tests/test_basic.py::test_plain"],
        ["machine_info.python_version", "labels.commit"],
    ),
    "Google Benchmark": (google_benchmark, ["BM_Copy/8"], ["context.library_build_type"]),
    "nccl-tests": (nccl_json, ["all_reduce_perf 1024 B float sum"], ["nccl-tests.nccl_version"]),
}


@pytest.mark.parametrize("program", FORMS)
def test_a_change_is_found_with_what_the_program_says_of_its_machine(
    program: str, invoke: Callable[..., Result], tmp_path: Path
) -> None:
    made, names, causes = FORMS[program]
    for number in range(24):
        (tmp_path / f"{number}.json").write_text(json.dumps(made(number)))
    (tmp_path / "machine.json").write_text("{}")
    done = invoke("history", tmp_path, "--json", "-")
    assert 0 == done.exit_code, done.output
    found = json.loads(done.stdout)
    assert {} == found["unreadable"]
    assert names == [each["name"] for each in found["series"]]
    for each in found["series"]:
        (change,) = each["changes"]
        assert 14 == change["point"]
        assert causes == [coincidence["cause"] for coincidence in change["coincidences"]]
        assert pytest.approx(TIMES_S[3]) == each["points"][3]["estimate_s"]


HEAD = """# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 graph: 0
# Using devices
#  Rank  0 Group  0 Pid     43 on     node-a device  0 [0x0f] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid     44 on     node-a device  1 [0x10] NVIDIA A100-SXM4-40GB
NCCL version 2.21.5+cuda12.4
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROW = "  1024  256  float  sum  -1   {:7.2f}    0.04    0.04      0   {:7.2f}    0.04    0.04    N/A\n"


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "0: "])
def test_what_nccl_tests_prints_is_read_and_ordered_by_when_it_was_written(
    prefix: str, invoke: Callable[..., Result], tmp_path: Path
) -> None:
    for number, time_s in enumerate(TIMES_S):
        path = tmp_path / f"{COMMITS[-number]}.log"
        lines = (HEAD + ROW.format(1e6 * time_s, 5e5 * time_s)).splitlines(keepends=True)
        path.write_text("".join(f"{prefix}{line}" for line in lines))
        os.utime(path, (1_700_000_000 + number * 60,) * 2)
    found = json.loads(invoke("history", tmp_path, "--json", "-").stdout)
    assert ["out_of_place", "in_place"] == [each["metric"] for each in found["series"]]
    assert {"2 x NVIDIA A100-SXM4-40GB"} == {each["machine"] for each in found["series"]}
    assert [[14], [14]] == [[change["point"] for change in each["changes"]] for each in found["series"]]


@pytest.mark.parametrize(
    "text",
    [
        '{"commit_hash": "a", "params": {}, "results": [], "date": 0}',
        '{"commit_hash": "a", "params": {}, "results": {"time_a": {"result": [1]}}, "date": 1e300}',
        '{"machine_info": {}, "benchmarks": [{}], "datetime": "x"}',
        '{"context": {}, "benchmarks": [{"name": "a"}]}',
        '{"nccl_version": 1, "config": {}, "results": [3]}',
        "[" * 100_000,
    ],
)
def test_what_only_looks_so_is_told_and_no_more(text: str, refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text)
    assert "odd.json: not " in refusal("history", tmp_path)
