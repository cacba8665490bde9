"""`primbench run`: suites, and files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import primbench.suites as suites
from primbench.registry import primitives
from primbench.results import file as results_file
from primbench.results import record

if TYPE_CHECKING:
    from click.testing import Result

DRY = ("--backend", "numpy", "--dry-run")
OWN = """
[[gemm]]
m = 4
n = 5
k = 6
set = "a"
application = "speech"
[[gemm]]
m = 7
n = 8
k = 9
set = "b"
application = "vision"
"""


def test_part_of_a_shipped_suite(invoke: Callable[..., Result]) -> None:
    narrow = ("--primitive", "gemm", "--set", "inference_device")
    result = invoke("run", "deepbench", *narrow, *DRY, "--no-check", "--json", "-")
    expected = suites.read("deepbench", only=["gemm"], set="inference_device")
    found = [record["case"] for record in json.loads(result.stdout)["records"]]
    assert [(each.problem.parameters(), each.labels) for each in expected] == [
        (each["parameters"], each["labels"]) for each in found
    ]


def test_own_file_and_its_labels_in_the_table(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    _, columns, *rows = invoke("run", path, *DRY).stdout.splitlines()
    assert ["m", "n", "k", "dtype", "set", "application", "check"] == columns.split()
    assert [
        ["4", "5", "6", "float32", "a", "speech", "ok"],
        ["7", "8", "9", "float32", "b", "vision", "ok"],
    ] == [row.split() for row in rows]


def test_dtypes_take_the_place_of_the_suites(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    result = invoke("run", path, "--dtype", "float64", "--dtype", "int8", "--set", "b", *DRY, "--json", "-")
    found = [record["case"]["parameters"]["dtype"] for record in json.loads(result.stdout)["records"]]
    assert ["float64", "int8"] == found


def test_ids_and_published_times_are_columns(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('gemm = [{m = 1760, n = 16, k = 1760, id = "ours/1"}, {m = 7, n = 16, k = 1760, id = "ours/2"}]')
    result = invoke("run", path, *DRY, "--no-check", "--against", "published:NVIDIA V100")
    _, columns, first, second, source, *_ = result.stdout.splitlines()
    assert ["ours/", "theirs", "check"] == columns.split()[-3:]
    assert ["1", "38.0", "us"] == first.split()[4:7]
    assert ["2", "-"] == second.split()[4:6]
    assert source.startswith("theirs: NVIDIA Tesla V100, fp32 (CUDA 10.1.243")


def test_roof_stands_in_front_and_is_kept_when_resumed(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("gemm = [{m = 4, n = 5, k = 6}, {m = 4, n = 5, k = 7}]")
    device = ("--backend", "numpy", "--device", "cpu", "--roof", "--dry-run", "--no-check")
    assert 0 == invoke("run", path, *device, "-o", tmp_path / "r.jsonl").exit_code
    found = results_file.read(tmp_path / "r.jsonl").records
    assert [(2048, "roof"), (4, None), (4, None)] == [
        (each.case.parameters["m"], each.case.labels.get("set")) for each in found
    ]
    assert 0 == invoke("run", path, *device, "--resume", tmp_path / "r.jsonl").exit_code
    assert found == results_file.read(tmp_path / "r.jsonl").records


@pytest.mark.parametrize("seen_by", ["front", "workers"])
def test_a_file_of_another_machine_is_not_gone_on_with(
    seen_by: str, invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    """Workers see GPUs, too; what the file holds is shown then."""
    held, path = results_file.read(measured[0]), tmp_path / "r.jsonl"
    there = held.header.environment
    other = replace(there, machine=replace(there.machine, cpu_model="Intel 80386"))
    header = replace(held.header, environment=other) if seen_by == "front" else held.header
    workers = [replace(each, environment=other) if seen_by == "workers" else each for each in held.workers]
    lines: list[record.Line] = [header, *workers, *held.records]
    path.write_bytes(b"".join(map(results_file.encode, lines)))
    before = path.read_bytes()
    result = invoke("gemm", "-m", 17, "-n", 24, "-k", 8, "--backend", "numpy", "--resume", path)
    (error,) = result.stderr.splitlines()
    assert (2, seen_by == "workers") == (result.exit_code, " float64 " in result.stdout)
    assert f"Error: --resume {path}: begun on another machine or kernel, or with other settings: " in error
    assert f"machine.cpu_model was Intel 80386, is {there.machine.cpu_model}" in error
    assert before == path.read_bytes()


def test_a_machine_that_was_started_again_is_the_same(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    """Its kernel may have kept some pages more for itself."""
    held, path = results_file.read(measured[0]), tmp_path / "r.jsonl"
    machine = held.header.environment.machine
    assert machine.memory_bytes is not None
    before = replace(machine, memory_bytes=machine.memory_bytes + 2**20)
    header = replace(held.header, environment=replace(held.header.environment, machine=before))
    lines: list[record.Line] = [header, *held.workers, *held.records]
    path.write_bytes(b"".join(map(results_file.encode, lines)))
    result = invoke("gemm", "-m", 17, "-n", 24, "-k", 8, "--backend", "numpy", "--resume", path)
    assert 0 == result.exit_code, result.output


def test_roof_of_nothing_that_is_measured_adds_no_case(invoke: Callable[..., Result]) -> None:
    result = invoke(
        "gemm", "-m", 4, "-n", 5, "-k", 6, "--dtype", "int8", "--roof", *DRY, "--device", "cpu", "--json", "-"
    )
    assert ["int8"] == [each["case"]["parameters"]["dtype"] for each in json.loads(result.stdout)["records"]]


REFUSED = [
    (["deepbench", "--primitive", "gemn"], f"primitive 'gemn': did you mean gemm? there are {', '.join(primitives())}"),
    (["deepbench", "--set", "x"], "deepbench: no entry of set 'x': it holds gemm 'training', "),
    (["deepbench", "--dtype", "float3"], "--dtype float3: one of float64, "),
    (
        ["nosuch"],
        f"suite 'nosuch': there are {', '.join([*suites.names(), *suites.studies()])}, and",
    ),
    (["r.jsonl"], "r.jsonl: a results file, and no suite: `primbench show` and `report` read it, --resume goes on"),
    ([], "Missing argument 'NAME|FILE.toml'."),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_bad_request_is_one_line(arguments: list[str], reason: str, refusal: Callable[..., str]) -> None:
    assert reason in refusal("run", *arguments)


CONTENTS = {
    b"": "no entries: write some, as in gemm = [{ m = 64, n = 64, k = 64 }]",
    b"gemm = ": "not TOML: ",
    b"\x7fELF\x02\x01\xff": "not UTF-8 text (byte 6)",
    b"gemm = 3": "gemm is not a list of entries: write [[gemm]] above each",
    b"[[gemn]]\nm = 1": "unknown key 'gemn': did you mean gemm? a primitive of your own: primbench --kernels FILE.py",
    b"[[gemm]]\nm = 1": "gemm entry 1: needs n, k",
}


@pytest.mark.parametrize("content", CONTENTS)
def test_file_that_is_no_suite_is_one_line(content: bytes, refusal: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(content)
    assert refusal("run", path).startswith(f"{path}: {CONTENTS[content]}")
    assert refusal("gemm", "--sizes", path).startswith(f"{path}: {CONTENTS[content]}")


def test_folder_is_no_suite(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert f"{tmp_path}: cannot be read: Is a directory" == refusal("run", tmp_path)


@settings(max_examples=60)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_refused_in_one_line(
    content: bytes, refusal: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "own.toml"
    path.write_bytes(content)
    assert refusal("run", path).startswith(str(path))


def test_a_budget_leaves_out_what_would_end_later_and_another_run_goes_on(
    invoke: Callable[..., Result], tmp_path: Path
) -> None:
    suite, path = tmp_path / "mine.toml", tmp_path / "results.jsonl"
    suite.write_text('gemm = [{ m = 4, n = 4, k = [4, 8] }]\nlaunch = [{ call = "getppid" }]\n')
    quick = ("--backend", "numpy", "--device", "cpu", "--min-time", "1ms", "--max-time", "10ms")
    done = invoke("run", suite, *quick, "--time-budget", "1us", "-o", path)
    assert 0 == done.exit_code
    (first,) = results_file.read(path).records
    before, what, _ = done.stderr.splitlines()
    assert before.startswith("3 cases: about ")
    assert "Not measured within --time-budget: 2 cases (1 of launch, 1 of gemm)." == what
    done = invoke("run", suite, *quick, "--time-budget", "1h", "--resume", path)
    assert 0 == done.exit_code
    measured = [each.case.primitive for each in results_file.read(path).records]
    assert ["gemm", "gemm", "launch"] == measured
    assert "gemm" == first.case.primitive
