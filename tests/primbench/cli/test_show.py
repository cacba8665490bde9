"""`primbench show`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from click.testing import Result


def test_table_is_the_one_that_the_run_printed(invoke: Callable[..., Result], measured: tuple[Path, Result]) -> None:
    path, run = measured
    assert (0, run.stdout, "") == ((shown := invoke("show", path)).exit_code, shown.stdout, shown.stderr)
    assert "float64" in run.stdout


def test_words_of_another_program_are_no_options(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    """A kernel's own exception names its arguments as Python does, and one of these may be called as an option is."""
    header, *lines = measured[0].read_text().splitlines()
    found = [json.loads(line) for line in lines]
    reason = "ValueError: sort=3 of columns=4"
    failed = [
        json.dumps(each | ({"status": "failed", "reason": reason, "measurement": None} if "status" in each else {}))
        for each in found
    ]
    path = tmp_path / "failed.jsonl"
    path.write_text("\n".join([header, *failed, ""]))
    assert f"failed: {reason}" in invoke("show", path).stdout


def test_time_unit_is_chosen_anew(invoke: Callable[..., Result], measured: tuple[Path, Result]) -> None:
    path, _ = measured
    assert " ms" in invoke("show", path, "--time-unit", "ms").stdout
    assert " us" not in invoke("show", path, "--time-unit", "ms").stdout


def test_export_over_the_file_itself_is_refused(refusal: Callable[..., str], measured: tuple[Path, Result]) -> None:
    path, _ = measured
    before = path.read_bytes()
    assert f"{path}: asked to hold two things, and holds one" == refusal("show", path, "--json", path)
    assert before == path.read_bytes()


def test_earlier_results_are_set_beside(invoke: Callable[..., Result], measured: tuple[Path, Result]) -> None:
    path, _ = measured
    result = invoke("show", path, "--against", path)
    _, columns, first, _, skipped, *notes = result.stdout.splitlines()
    assert ["theirs", "ratio", "check"] == columns.split()[-3:]
    assert ["1.000", "ok"] == first.split()[-2:]
    assert " -  skipped: NumPy has no" in skipped
    assert any("geometric mean 1.000 over 2 of 3 cases" in note for note in notes)
    assert "2 of 3" in invoke("show", path, "--against", path, "--markdown", "-").stdout
    rows = list(csv.DictReader(io.StringIO(invoke("show", path, "--against", path, "--csv", "-").stdout)))
    assert [("1.0", True), ("1.0", True), ("", False)] == [(row["ratio"], bool(row["theirs_s"])) for row in rows]


def test_baseline_that_is_not_there_names_what_is(refusal: Callable[..., str], measured: tuple[Path, Result]) -> None:
    error = refusal("show", measured[0], "--against", "reference:nosuch")
    assert "reference:nosuch: there are h100, h200" in error


def test_a_file_comes_through_a_pipe(measured: tuple[Path, Result], invoke: Callable[..., Result]) -> None:
    found = subprocess.run(
        [sys.executable, "-P", "-m", "primbench", "show", "-"],
        input=measured[0].read_bytes(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (0, invoke("show", measured[0]).stdout) == (found.returncode, found.stdout.decode())


@pytest.mark.parametrize("content", [b"", b"\x00\xff\n", b'{"kind": "header"}\n', b"[[gemm]]\nm = 1\n"])
def test_file_that_holds_no_results_is_one_line(content: bytes, refusal: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    assert refusal("show", path).startswith(f"{path}: not a primbench results file")


def test_file_that_was_left_before_its_first_case_says_so(
    refusal: Callable[..., str], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(measured[0].read_bytes().split(b"\n")[0] + b"\n")
    assert f"{path}: holds no records: the run ended before its first case did" == refusal("show", path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nosuch", "no such file, nor a baseline of that name in .primbench/baselines: there is none"),
        (".", "a folder without results files (*.jsonl)"),
    ],
)
def test_file_that_cannot_be_read(name: str, reason: str, refusal: Callable[..., str], tmp_path: Path) -> None:
    assert f"{tmp_path / name}: {reason}" == refusal("show", tmp_path / name)


@pytest.mark.parametrize("parameters", [True, False])
def test_a_primitive_that_is_not_installed_here_is_shown_as_the_file_has_it(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path, *, parameters: bool
) -> None:
    header, worker, *records = map(json.loads, measured[0].read_bytes().splitlines())
    for record in records:
        case = record["case"]
        case |= {"primitive": "gemn", "parameters": case["parameters"] | {"own field": 7} if parameters else {}}
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, worker, *records)))
    shown = invoke("show", path)
    assert (0, 1) == (shown.exit_code, shown.stderr.count("primbench --kernels FILE.py has them\n"))
    heading = shown.stdout.splitlines()[1].split()
    assert parameters == ({"m", "n", "k", "own", "field"} <= set(heading))
    assert {"wall", "check"} <= set(heading)


def test_what_was_sampled_over_time_is_a_column_and_is_drawn(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    run = invoke(
        "gemm", "-m", 16, "-n", 16, "-k", 16, "--backend", "numpy", "--max-time", "20ms", "--over-time", "-o", path
    )
    assert ["host", "mem", "check"] == run.stdout.splitlines()[1].split()[-3:]
    shown = invoke("show", path)
    assert shown.stdout.startswith(run.stdout)
    drawn = shown.stdout.removeprefix(run.stdout)
    assert drawn.startswith("\ngemm m=16 n=16 k=16 float32 on numpy cpu, over ")
    (rss,) = [line for line in drawn.splitlines() if line.startswith("host rss ")]
    assert 40 == len(rss.split()[-1])
    assert "█" in rss
    (row,) = csv.DictReader(io.StringIO(invoke("show", path, "--csv", "-").stdout))
    assert 0 < float(row["host_rss_mean_bytes"]) <= float(row["host_rss_peak_bytes"])
    (record,) = json.loads(invoke("show", path, "--json", "-").stdout)["records"]
    series = record["measurement"]["over_time"]["series"]["host_rss_bytes"]
    assert max(series["values"]) == float(row["host_rss_peak_bytes"])


def test_without_samples_over_time_there_is_no_column(measured: tuple[Path, Result]) -> None:
    _, run = measured
    assert "host mem" not in run.stdout


RECORDED = Path(__file__).parents[3] / "suites/reference/h200-memcpy-cupy.jsonl.xz"


def rows(result: Result) -> list[list[str]]:
    assert 0 == result.exit_code, result.stderr
    return [line.split() for line in result.stdout.splitlines()[1:] if not line.startswith(("!", "*", "h2d", "d2h"))]


def test_a_word_in_place_of_a_number_is_none(refusal: Callable[..., str], measured: tuple[Path, Result]) -> None:
    assert "--only alpha=x: no record is such: alpha is 1.0" == refusal("show", measured[0], "--only", "alpha=x")


def test_records_are_chosen_sorted_and_shown_in_some_columns(invoke: Callable[..., Result]) -> None:
    chosen = ["--only", "memcpy", "--only", "direction=h2d", "--only", "direction=d2h", "--only", "bytes=64B,4K"]
    chosen += ["--only", "process=0"]
    shown = rows(invoke("show", RECORDED, *chosen, "--sort", "-device", "--columns", "direction,bytes,device"))
    assert ["direction", "bytes", "device"] == shown[0]
    assert [["h2d", "4", "KiB"], ["h2d", "64", "B"], ["d2h", "4", "KiB"], ["d2h", "64", "B"]] == [
        row[:3] for row in shown[1:]
    ]
    exported = invoke("show", RECORDED, "--only", "direction=d2d", "--csv", "-").stdout
    assert {"d2d"} == {row["direction"] for row in csv.DictReader(io.StringIO(exported))}


def test_a_field_has_a_column_where_it_is_asked_for_even_if_it_says_nothing(invoke: Callable[..., Result]) -> None:
    chosen = ("show", RECORDED, "--only", "direction=h2d", "--only", "bytes=64B,4K")
    assert "gpus" not in rows(invoke(*chosen))[0]
    assert ["gpus", "direction"] == rows(invoke(*chosen, "--columns", "gpus,direction", "--sort", "gpus"))[0]


def test_models_that_are_not_here_are_told(invoke: Callable[..., Result], tmp_path: Path) -> None:
    text = RECORDED.with_name("h100-models-2-ranks-torch.jsonl").read_text()
    (tmp_path / "own.jsonl").write_text(text.replace('"network":"gpt2"', '"network":"own"'))
    hint = "own: no model here, so without columns and margins of its own: primbench --kernels FILE.py has them\n"
    assert (0, hint) == ((shown := invoke("show", tmp_path / "own.jsonl")).exit_code, shown.stderr)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--only", "gem", "--only gem: no record is such: primitive is memcpy"),
        ("--only", "nosuch=1", "--only nosuch=1: no record is such: fields are primitive, status, arm, backend, "),
        ("--sort", "devise", "column 'devise': did you mean device? there are "),
        ("--columns", "bytes,xyz", "column 'xyz': there are B/s, bytes, check, "),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    option: str, value: str, said: str, refusal: Callable[..., str]
) -> None:
    assert refusal("show", RECORDED, option, value).startswith(said)
