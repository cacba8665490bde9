"""A primitive's command: its sizes, its fields, the product of what is repeated."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import primbench.suites as suites
from primbench.problem import fields_of
from primbench.registry import primitives
from primbench.units import format_bytes

if TYPE_CHECKING:
    from click.testing import Result

DRY = ("--backend", "numpy", "--dry-run")


def problems(result: Result) -> list[dict[str, Any]]:
    assert 0 == result.exit_code, result.output
    return [record["case"]["parameters"] for record in json.loads(result.stdout)["records"]]


def test_repeated_options_are_run_in_every_combination(invoke: Callable[..., Result]) -> None:
    result = invoke("gemm", "-m", 1, "-m", 2, "-n", 3, "-k", 4, "-k", 5, *DRY, "--json", "-")
    expected = [(m, 3, k) for m in (1, 2) for k in (4, 5)]
    assert expected == [(found["m"], found["n"], found["k"]) for found in problems(result)]


def test_what_is_asked_for_twice_is_run_once(invoke: Callable[..., Result]) -> None:
    given = ("-m", "2,1", "-m", 2, "-n", 3, "-k", 4, "--dtype", "FP32", "--dtype", "float32", "--dtype", "double")
    result = invoke("gemm", *given, *DRY, "--trace", "--json", "-")
    assert [(2, "float32"), (2, "float64"), (1, "float32"), (1, "float64")] == [
        (each["m"], each["dtype"]) for each in problems(result)
    ]
    assert result.stderr.startswith("--trace: the log is a GPU's, and nothing here runs on one")


def test_one_letter_may_be_written_as_a_word(invoke: Callable[..., Result]) -> None:
    result = invoke("gemm", "--m", 2, "--n=3,5", "-k", 4, *DRY, "--json", "-")
    assert [(2, 3, 4), (2, 5, 4)] == [(each["m"], each["n"], each["k"]) for each in problems(result)]
    conv = ("--n", 1, "--c", 1, "--h", 4, "--w", 4, "--k", 1, "--r", 1, "--s", 1)
    assert [4] == [each["h"] for each in problems(invoke("conv", *conv, *DRY, "--json", "-"))]


def test_choices_may_be_a_list(invoke: Callable[..., Result], refusal: Callable[..., str]) -> None:
    result = invoke(
        "gemm", "-m", 2, "-n", 3, "-k", 4, "--dtype", "fp64,float32", "--dtype", "fp32", *DRY, "--json", "-"
    )
    assert ["float64", "float32"] == [each["dtype"] for each in problems(result)]
    asked = ("elementwise", "--elements", 8, "--op", "copy,add", *DRY, "--json", "-")
    assert ["copy", "add"] == [each["op"] for each in problems(invoke(*asked))]
    suite = invoke("run", "small", "--primitive", "gemm", "--dtype", "fp64,int8", *DRY, "--no-check", "--json", "-")
    assert {"float64", "int8"} == {each["dtype"] for each in problems(suite)}
    assert "'fp17' is not one of 'float64'" in refusal("gemm", "--dtype", "fp64,fp17")


@pytest.mark.parametrize(("written", "meant"), [("1,3", [1, 3]), ("1:4:2", [1, 2, 4]), ("2", [2]), ("1K", [1024])])
def test_every_whole_number_may_be_a_list_or_a_sweep(
    written: str, meant: list[int], invoke: Callable[..., Result]
) -> None:
    dimensions = ("-n", 1, "-c", 1, "-h", 4, "-w", 4, "-k", 1, "-r", 1, "-s", 1)
    result = invoke("conv", *dimensions, "--stride-h", written, *DRY, "--json", "-")
    assert meant == [each["stride_h"] for each in problems(result)]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("-1", "conv --stride-h -1: a whole number of at least 1"),
        ("1.5", "'1.5': a whole number such as 4096 or 4K (of 1024, as M and G), or a sweep: 64:4096:2"),
        ("4:1", "'4:1': a number, or MIN:MAX:FACTOR with 1 <= MIN <= MAX and FACTOR >= 2"),
    ],
)
def test_a_whole_number_that_is_none_is_refused(written: str, words: str, refusal: Callable[..., str]) -> None:
    dimensions = ("-n", 1, "-c", 1, "-h", 4, "-w", 4, "-k", 1, "-r", 1, "-s", 1)
    assert words in refusal("conv", *dimensions, "--stride-h", written)


def test_resuming_with_another_method_says_why_it_measures_again(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert "" == invoke("gemm", "-m", 2, "-n", 3, "-k", 4, *DRY, "-o", path).stderr
    again = invoke("gemm", "-m", "2,3", "-n", 3, "-k", 4, *DRY, "--seed", 7, "--resume", path)
    assert f"--resume {path}: 1 of its cases measured anew: seed 7, there 0\n" == again.stderr


def test_sizes_are_those_of_the_suite(invoke: Callable[..., Result]) -> None:
    result = invoke("gemm", "--sizes", "small", *DRY, "--no-check", "--json", "-")
    assert [each.parameters() for each in suites.load("small", only=["gemm"])] == problems(result)


def test_fields_replace_those_of_the_sizes(invoke: Callable[..., Result]) -> None:
    result = invoke(
        "gemm", "--sizes", "small", "-m", 4, "--dtype", "float64", "--trans-b", *DRY, "--no-check", "--json", "-"
    )
    assert {(4, "float64", True)} == {(each["m"], each["dtype"], each["trans_b"]) for each in problems(result)}


def test_sizes_may_be_a_file(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("gemm = [{m = 2, n = 3, k = 4}]\n")
    assert [2] == [each["m"] for each in problems(invoke("gemm", "--sizes", path, *DRY, "--json", "-"))]


def test_dimensions_given_in_part_name_the_rest(refusal: Callable[..., str]) -> None:
    assert "gemm: give also n, k, or --sizes" == refusal("gemm", "-m", 3)


@pytest.mark.parametrize("name", ["nosuch", ""])
def test_unknown_sizes_name_those_there_are(name: str, refusal: Callable[..., str]) -> None:
    assert refusal("gemm", "--sizes", name).startswith(f"suite {name!r}: there are small, medium, large, bert-base")


def test_help_shows_every_field_and_its_default(invoke: Callable[..., Result]) -> None:
    for name, problem in primitives().items():
        shown = " ".join(invoke(name, "--help-all").stdout.split())
        for field in fields_of(problem):
            if "names" in field.metadata:
                assert shown.startswith(f"Usage: primbench {name} [OPTIONS] [NAME]... ")
                continue
            flag = "-" * (1 + (len(field.name) > 1)) + field.name.replace("_", "-")
            assert re.search(rf" {flag}\b", shown), flag
            assert field.metadata["help"] in shown
            is_shown = not isinstance(field.default, bool) and field.default not in ("", dataclasses.MISSING)
            words = re.escape(field.metadata["help"])
            default: Any = field.default
            written = format_bytes(default) if field.metadata.get("unit") and is_shown else str(default)
            assert not is_shown or re.search(rf"{words}[^[]*\. \[default: {re.escape(written)}\]", shown)


def test_help_says_once_that_every_combination_is_run(invoke: Callable[..., Result]) -> None:
    shown = " ".join(invoke("conv", "--help-all").stdout.split())
    assert 1 == shown.count("or a whole number as a sweep, MIN:MAX:FACTOR: every combination is run.")


def test_help_shows_the_default_of_a_flag_as_it_is_written(invoke: Callable[..., Result]) -> None:
    shown = " ".join(invoke("allreduce", "--help-all").stdout.split())
    assert re.search(r"--in-place / --no-in-place [^[]*\[default: in- ?place\]", shown)


def test_error_of_an_option_names_the_help_of_its_command(refusal: Callable[..., str]) -> None:
    assert "Option '-h' requires an argument. (see primbench conv --help)" == refusal("conv", "-h")


def test_dry_run_shows_no_times(invoke: Callable[..., Result]) -> None:
    result = invoke("gemm", "-m", 8, "-n", 8, "-k", 8, *DRY)
    title, columns, row = result.stdout.splitlines()
    assert title.startswith("gemm  numpy ")
    assert "times" not in title
    assert ["m", "n", "k", "dtype", "check"] == columns.split()
    assert ["8", "8", "8", "float32", "ok"] == row.split()


def test_skipped_case_is_a_row_and_no_failure(measured: tuple[Path, Result]) -> None:
    _, result = measured
    assert 0 == result.exit_code
    assert 1 == sum("skipped: NumPy has no bfloat16 matrix product" in line for line in result.stdout.splitlines())
    assert "" == result.stderr


def test_nothing_measured_is_exit_code_1_and_names_what_to_install(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "numba", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    sizes = ("-m", 8, "-n", 8, "-k", 8, "--device", "cpu", "--backend", "all", "--dry-run")
    result = invoke("gemm", *sizes, "--dtype", "bf16", "--roof")
    install = "module 'torch' is not installed: pip install torch (https://pytorch.org/get-started/locally says"
    why = f"Nothing was measured: NumPy has no bfloat16 matrix product. torch has kernels for gemm: {install}"
    assert (1, why) == (result.exit_code, result.stderr[: len(why)])
    assert "numba" not in result.stderr  # which has no bfloat16, either
    without = invoke("gemm", *sizes, "--math-mode", "tf32")
    assert (1, "Nothing was measured: NumPy has no tf32 mode\n") == (without.exit_code, without.stderr)
    some = invoke("gemm", *sizes, "--dtype", "bf16", "--dtype", "fp32")
    assert (0, "") == (some.exit_code, some.stderr)


def test_study_that_measures_nothing_says_so(invoke: Callable[..., Result], tmp_path: Path) -> None:
    (path := tmp_path / "own.toml").write_text('gemm = [{m = 2, n = 3, k = 4, dtype = "bfloat16"}]')
    where = ("--arm", "host", "--self", "--pairs", 2, "--backend", "numpy", "--device", "cpu", "--fail-on", "never")
    result = invoke("study", path, *where)
    assert (1, True) == (result.exit_code, "Nothing was measured: NumPy has no bfloat16" in result.stderr)


def test_failed_case_is_a_row_and_exit_code_1(invoke: Callable[..., Result]) -> None:
    result = invoke("gemm", "-m", 1024, "-n", 1024, "-k", 1024, *DRY, "--timeout", "1ns")
    assert (1, "") == (result.exit_code, result.stderr)
    assert result.stdout.splitlines()[-1].endswith("failed: no answer within 1e-09 s (--timeout)")


def test_time_unit_holds_for_every_time(invoke: Callable[..., Result]) -> None:
    times = ("--min-time", "1ms", "--max-time", "5ms", "--time-unit", "ns")
    result = invoke("gemm", "-m", 8, "-m", 64, "-n", 8, "-k", 8, "--backend", "numpy", *times)
    assert {"ns"} == set(re.findall(r" [0-9.]+ (ns|us|ms|s) ", result.stdout))


@pytest.mark.wheel
def test_several_backends_are_told_apart_and_all_takes_what_is_installed(invoke: Callable[..., Result]) -> None:
    result = invoke(
        "gemm", "-m", 8, "-n", 8, "-k", 8, "--backend", "all", "--device", "cpu", "--dry-run", "--json", "-"
    )
    from primbench.backends import candidates
    from primbench.registry import backends_of

    found = [record["case"]["backend"] for record in json.loads(result.stdout)["records"]]
    assert candidates(backends_of("gemm"), "cpu") == found


def test_what_a_kernel_asks_for_is_shown_as_the_option_that_it_is(invoke: Callable[..., Result]) -> None:
    sizes = ("--sizes", "small", "--dtype", "float32", "--algo", "fused")
    done = invoke("rnn", *sizes, "--backend", "numpy", "--device", "cpu", "--dry-run")
    assert "skipped: NumPy has no call for a whole sequence: ask for --algo stepwise" in done.stdout
