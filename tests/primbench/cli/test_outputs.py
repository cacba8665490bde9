"""Where results go: stdout, exports, results files; and what is refused before anything is measured."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.results import file as results_file

if TYPE_CHECKING:
    from click.testing import Result

DRY = ("gemm", "-m", "8", "-n", "8", "-k", "8", "--backend", "numpy", "--dry-run")
EXPORTS = ("--csv", "--markdown", "--json")


@pytest.mark.parametrize("option", EXPORTS)
def test_export_to_a_file_is_what_goes_to_stdout(
    option: str, invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    path, run = measured
    printed = invoke("show", path, option, "-")
    written = invoke("show", path, option, tmp_path / "export")
    assert (0, "") == (printed.exit_code, printed.stderr)
    assert printed.stdout == (tmp_path / "export").read_text() != ""
    assert run.stdout == written.stdout  # the table is printed where stdout is free


def test_csv_is_in_seconds_whatever_the_table_shows(
    invoke: Callable[..., Result], measured: tuple[Path, Result]
) -> None:
    path, _ = measured
    rows = list(csv.DictReader(io.StringIO(invoke("show", path, "--csv", "-", "--time-unit", "ns").stdout)))
    medians = [each.measurement and each.measurement.main for each in results_file.read(path).records]
    assert [str(each.median_s) if each else "" for each in medians] == [row["batch_s"] for row in rows]


def test_json_is_the_whole_results_file(invoke: Callable[..., Result], measured: tuple[Path, Result]) -> None:
    path, _ = measured
    document = json.loads(invoke("show", path, "--json", "-").stdout)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [document["header"], *document["workers"], *document["records"]]
    assert {"where": "here"} == document["header"]["labels"]


def test_several_exports_at_once(invoke: Callable[..., Result], tmp_path: Path) -> None:
    result = invoke(*DRY, *(part for option in EXPORTS for part in (option, tmp_path / option)))
    assert 0 == result.exit_code
    assert set(EXPORTS) == {path.name for path in tmp_path.iterdir()}


def test_results_file_holds_the_run(measured: tuple[Path, Result]) -> None:
    path, _ = measured
    assert ["ok", "ok", "skipped"] == [each.status for each in results_file.read(path).records]


REFUSED = [
    (["--csv", "-", "--json", "-"], "stdout: asked to hold two things, and holds one"),
    (["--csv", "one", "--markdown", "./one"], "one: asked to hold two things, and holds one"),
    (["-o", "one", "--json", "one"], "one: asked to hold two things, and holds one"),
    (["--csv", "missing/x.csv"], "missing/x.csv: there is no folder missing"),
    (["--markdown", "."], ".: is a folder"),
    (["-o", "."], ".: is a folder"),
    (["-o", "missing/x.jsonl"], "missing/x.jsonl: there is no folder missing"),
    (["--resume", "missing.jsonl"], "missing.jsonl: No such file or directory"),
    (["-o", "one", "--resume", "two"], "--output and --resume: one file, --resume goes on writing to it"),
    (["--resume", "two", "--label", "a=b"], "--label and --resume: two keeps the labels it was begun with"),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_output_that_cannot_be_written_is_refused_and_nothing_is_made(
    arguments: list[str],
    reason: str,
    refusal: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reason == refusal(*DRY, *arguments)
    assert [] == list(tmp_path.iterdir())


WRITING = [
    (*DRY, "--csv", "there"),
    (*DRY, "-o", "there.jsonl"),
    ("run", "own.toml", "--dry-run", "--no-check", "--json", "there"),
    ("show", "held.jsonl", "--markdown", "there"),
    ("compare", "held.jsonl", "other.jsonl", "--fail-on", "never", "--csv", "there"),
    ("report", "held.jsonl", "-o", "there"),
    ("report", "held.jsonl"),
    ("fleet", "nodes", "--json", "there"),
    ("env", "--json", "there"),
    ("env", "diff", "held.jsonl", "held.jsonl", "--json", "there"),
    ("topo", "--svg", "there"),
    ("doctor", "--json", "there"),
    ("watch", "PID", "--for", "100ms", "-o", "there"),
    ("watch", "PID", "--for", "100ms", "--prometheus", "there"),
]
"""Commands that write a file, the name of which is the last word, or its default."""


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: tuple[Path, Result]) -> None:
    """The working folder has what the commands read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes").mkdir()
    for name in ("held.jsonl", "other.jsonl", "nodes/n1-0.jsonl"):
        (tmp_path / name).write_bytes(measured[0].read_bytes())
    (tmp_path / "own.toml").write_text("gemm = [{m = 2, n = 3, k = 4}]")


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
@pytest.mark.usefixtures("inputs")
def test_a_file_that_exists_is_replaced_by_overwrite_alone(
    words: tuple[str, ...], invoke: Callable[..., Result], refusal: Callable[..., str]
) -> None:
    words = tuple(word.replace("PID", str(os.getpid())) for word in words)
    there = Path("report.html" if words == ("report", "held.jsonl") else words[-1])
    there.write_text("mine")
    resumes = f"add to it with --resume {there}, or " if words[-2] == "-o" and words[0] == "gemm" else ""
    assert f"{there}: exists; {resumes}replace it with --overwrite" == refusal(*words)
    assert "mine" == there.read_text()
    done = invoke(*words, "--overwrite")
    assert done.exit_code in (0, 1), done.output
    assert "Error" not in done.stderr
    assert there.read_text() not in ("mine", "")
    assert [] == [name for name in os.listdir() if name.startswith(".primbench-")]


@pytest.mark.parametrize(
    "words",
    [
        ("show", "missing.jsonl", "--csv", "there"),
        ("compare", "missing.jsonl", "held.jsonl", "--csv", "there"),
        ("report", "missing.jsonl", "-o", "there"),
        ("explain", "missing.jsonl", "--csv", "there"),
        ("fleet", "missing", "--csv", "there"),
        ("env", "diff", "missing.jsonl", "held.jsonl", "--json", "there"),
        ("doctor", "--against", "missing.jsonl", "--json", "there"),
        ("capture", "missing.py", "-o", "there"),
        ("run", "missing.toml", "-o", "there.jsonl"),
        (*DRY, "--resume", "missing.jsonl", "--csv", "there"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("inputs")
def test_what_is_missing_is_said_before_what_exists(words: tuple[str, ...], refusal: Callable[..., str]) -> None:
    Path(words[-1]).write_text("mine")
    assert "missing" in refusal(*words)
    assert "mine" == Path(words[-1]).read_text()


@pytest.mark.usefixtures("inputs")
def test_devices_and_pipes_are_written_without_overwrite(invoke: Callable[..., Result]) -> None:
    assert 0 == invoke("show", "held.jsonl", "--csv", "/dev/null").exit_code
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert 0 == invoke("topo", "--json", "pipe").exit_code
        assert os.read(reader, 1) == b"{"
    finally:
        os.close(reader)


@pytest.mark.usefixtures("inputs")
def test_results_go_to_no_device(refusal: Callable[..., str]) -> None:
    reason = "no regular file, and a results file is added to and read back: --json writes there"
    assert f"/dev/null: {reason}" == refusal(*DRY, "-o", "/dev/null")
    assert f"/dev/stdout: {reason}" == refusal(*DRY, "-o", "/dev/stdout")


def test_in_a_folder_that_is_gone_no_file_can_be_named(
    refusal: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "x.csv: the folder that this was started in is not there any more" == refusal(*DRY, "--csv", "x.csv")


def test_file_without_write_permission_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere: needs an ordinary user")
    tmp_path.chmod(0o500)
    assert f"{tmp_path}/x.csv: no permission to write it" == refusal(*DRY, "--csv", tmp_path / "x.csv")


def test_export_that_fails_comes_after_the_table(invoke: Callable[..., Result]) -> None:
    result = invoke(*DRY, "--csv", "/dev/full")
    assert (1, "Error: /dev/full: No space left on device\n") == (result.exit_code, result.stderr)
    assert result.stdout.startswith("gemm  numpy ")


def test_name_that_the_system_refuses_is_no_traceback(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    result = invoke(*DRY, "--json", path)
    assert (2, f"Error: {path}: File name too long\n") == (result.exit_code, result.stderr)  # before it measures


def test_results_that_times_are_set_beside_are_not_written_over(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    path = tmp_path / "earlier.jsonl"
    path.write_bytes(measured[0].read_bytes())
    sizes = ("gemm", "-m", 8, "-n", 8, "-k", 8, "--backend", "numpy", "--max-time", "1ms")
    done = invoke(*sizes, "--against", path, "-o", path, "--overwrite")
    assert 2 == done.exit_code
    assert "asked to hold two things" in done.stderr
    assert path.read_bytes() == measured[0].read_bytes()
