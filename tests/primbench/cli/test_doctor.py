"""`primbench doctor`: what it prints and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from primbench.cli.doctor import command
from primbench.doctor import place
from primbench.doctor.cause import Finding
from primbench.errors import FileError, InvalidRequest
from primbench.report import text
from primbench.report.doctor import document

from .examined import decoded


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_a_problem_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    result = invoke()
    assert 1 == result.exit_code
    assert "problem: variables: CUDA_LAUNCH_BLOCKING is set: every launch waits" in result.stdout
    assert "\x1b" not in result.stdout


def test_fix_prints_commands_with_a_comment_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    shown = invoke("--fix").stdout
    block = shown[shown.index("# Commands that change") :].splitlines()
    assert "unset NCCL_P2P_DISABLE" in block
    assert block[block.index("unset NCCL_P2P_DISABLE") - 1].startswith("# nccl-variables: ")
    assert "unset NCCL_P2P_DISABLE" not in invoke().stdout


def test_worst_comes_first_and_one_reason_is_told_once() -> None:
    findings = [
        Finding(cause="n", severity="note", summary="worth knowing"),
        Finding(cause="u", severity="unknown", summary="could not be seen", values=["a", "no such file"]),
        Finding(cause="p", severity="problem", summary="wrong"),
        Finding(cause="v", severity="unknown", summary="could not be seen", values=["b", "no such file"]),
        Finding(cause="w", severity="warning", summary="moves results"),
        Finding(cause="o", severity="ok", summary="fine"),
    ]
    shown = text.write(document(place.look(), findings, fix=False))
    assert shown.index("wrong") < shown.index("moves results") < shown.index("worth knowing")
    assert "could not be seen: u (a), v (b): no such file\n" in shown
    assert shown.endswith("1 problem, 1 warning, 1 note; 1 checks found nothing to say\n")


def test_json_document_goes_to_the_file_and_the_text_to_stdout(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    assert "This place: " in invoke("--json", str(path)).stdout
    document = decoded(path.read_bytes())
    assert {"place", "findings"} == json.loads(path.read_bytes()).keys()
    assert sorted(os.sched_getaffinity(0)) == document.place.environment.limits.cpus_allowed


def test_against_says_which_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there.json"
    invoke("--json", str(there))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shown = invoke("--against", str(there)).stdout
    assert f"against-threads: OMP_NUM_THREADS is 1 here and none in {there.name}" in " ".join(shown.split())


def test_against_says_so_where_nothing_differs(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    invoke("--json", str(there))
    shown = invoke("--against", str(there)).stdout
    words = f"nothing that is known to move results differs between here and {there.name}"
    assert f"note: against: of what both tell, {words}" in shown


def test_text_is_as_narrow_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(cause="c", severity="note", summary="s", advice="word " * 40)
    monkeypatch.setenv("COLUMNS", "70")
    assert 60 < max(map(len, text.write(document(place.look(), [finding], fix=True)).splitlines()[1:])) <= 70


def test_refuses_what_it_cannot_read_or_write_before_it_looks(tmp_path: Path) -> None:
    for arguments, error in (
        (("--against", str(tmp_path / "none")), FileError),
        (("--json", str(tmp_path / "none/x.json")), InvalidRequest),
        (("--json", "same", "--against", "same"), InvalidRequest),
    ):
        with pytest.raises(error):
            invoke(*arguments)
    assert 2 == invoke("--strict").exit_code


def test_is_quick_to_import_and_imports_no_framework() -> None:
    code = (
        "import sys; from primbench.cli.doctor import command\n"
        "try: command([])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'torch', 'cupy', 'numba', 'scipy', 'tabulate'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.splitlines()[-1]
