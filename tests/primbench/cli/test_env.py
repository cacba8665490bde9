"""`primbench env` and `primbench env diff`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from msgspec.structs import replace

from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.results import file as results_file
from primbench.units import format_bytes

Invoke = Callable[..., Result]


def test_json_is_an_environment_and_where_it_was_read(invoke: Invoke) -> None:
    result = invoke("env", "--json", "-")
    assert 0 == result.exit_code
    assert msgspec.json.decode(result.stdout, type=Environment).software.python_version
    assert fingerprint.sources() == json.loads(result.stdout)["sources"]


def test_file_holds_what_stdout_would_and_the_listing_is_still_shown(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    result = invoke("env", "--json", path)
    assert (0, True) == (result.exit_code, "machine\n  kernel " in result.stdout)
    assert msgspec.json.decode(path.read_bytes(), type=Environment).limits.cpus_allowed


def test_listing_shows_every_field_where_it_was_read_and_why_not(invoke: Invoke) -> None:
    found = msgspec.json.decode(invoke("env", "--json", "-").stdout, type=Environment)
    shown = invoke("env").stdout.splitlines()
    groups = (found, found.machine, found.limits, found.confinement, found.software, found.devices)
    for group in groups:
        inner = [name for name in group.__struct_fields__ if name != "missing"]
        fields = [name for name in inner if not (group is found and isinstance(getattr(group, name), msgspec.Struct))]
        for name in fields:
            starts = f"    {name} " if name in group.missing else f"  {name} "
            assert any(f"{line} ".startswith(starts) for line in shown), name
    assert any("sched_getaffinity()" in line for line in shown)


@pytest.fixture
def files(invoke: Invoke, tmp_path: Path) -> tuple[Path, Path]:
    """This place, and one with another quota and another NumPy."""
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    invoke("env", "--json", here)
    found = msgspec.json.decode(here.read_bytes(), type=Environment)
    limits = replace(found.limits, cpu_quota=0.25, missing={})
    software = replace(found.software, packages={**(found.software.packages or {}), "numpy": "0.1"})
    there.write_bytes(msgspec.json.encode(replace(found, limits=limits, software=software)))
    return here, there


def test_diff_gives_verdicts_and_exits_with_0(invoke: Invoke, files: tuple[Path, Path]) -> None:
    result = invoke("env", "diff", *files)
    assert 0 == result.exit_code
    lines = result.stdout.splitlines()
    verdicts = ["same stack: no", "same limits: no", "same confinement: yes", "same machine: yes"]
    assert verdicts == [line for line in lines if line.startswith("same ")]
    assert any(line.split()[0] == "software.packages.numpy" and line.endswith(" 0.1") for line in lines if line)


def test_diff_as_json(invoke: Invoke, files: tuple[Path, Path]) -> None:
    found = json.loads(invoke("env", "diff", *files, "--json", "-").stdout)
    assert {"stack": False, "limits": False, "confinement": True, "machine": True} == {
        part: each["same"] for part, each in found.items()
    }


def test_diff_of_a_place_with_itself(invoke: Invoke, files: tuple[Path, Path]) -> None:
    here, _ = files
    assert 4 == invoke("env", "diff", here, here).stdout.count(": yes\n")


def test_diff_reads_the_first_worker_of_results(invoke: Invoke, measured: tuple[Path, Result], tmp_path: Path) -> None:
    results, worker, changed = measured[0], tmp_path / "worker.json", tmp_path / "changed.jsonl"
    found = results_file.read(results)
    worker.write_bytes(msgspec.json.encode(found.workers[0].environment))
    header, _, rest = results.read_bytes().partition(b"\n")
    files = msgspec.json.encode({"open_files": found.header.environment.limits.open_files})[1:-1]
    changed.write_bytes(header.replace(files, b'"open_files":7') + b"\n" + rest)
    assert 4 == invoke("env", "diff", worker, changed).stdout.count(": yes\n")
    changed.write_bytes(header.replace(files, b'"open_files":7') + b"\n")  # ended before its first worker
    assert "limits.open_files" in invoke("env", "diff", worker, changed).stdout


def test_what_only_a_worker_had_loaded_is_unknown_of_a_command_in_the_same_place(
    invoke: Invoke, measured: tuple[Path, Result], tmp_path: Path
) -> None:
    results, command, found = measured[0], tmp_path / "command.json", tmp_path / "found.json"
    looked = [
        sys.executable,
        "-P",
        "-m",
        "primbench",
        "env",
        "--json",
        str(command),
    ]  # this process has loaded more by now
    subprocess.run(looked, check=True, capture_output=True, cwd=tmp_path)
    invoke("env", "diff", command, results, "--json", found)
    changes = json.loads(found.read_bytes())["stack"]["changes"]
    kinds = {each["field"]: each["kind"] for each in changes if each["field"].startswith("software.libraries.")}
    kinds.pop("software.libraries.libcrypto", None)  # of the worker's hashlib, which the work goes without
    assert {"unknown"} == {*kinds.values()}
    assert "same stack: yes" in invoke("env", "diff", results, results).stdout


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'{"kind":"header"}\n', b"[" * 10000])
def test_file_that_cannot_be_compared_is_one_line(
    refusal: Callable[..., str], files: tuple[Path, Path], tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "other.json"
    if content is not None:
        path.write_bytes(content)
    assert refusal("env", "diff", files[0], path).startswith(f"{path}: ")


def test_json_in_front_of_diff_is_refused(refusal: Callable[..., str]) -> None:
    assert "belongs behind diff" in refusal("env", "--json", "-", "diff", "a", "b")


def test_what_is_compared_is_not_written_over(refusal: Callable[..., str], files: tuple[Path, Path]) -> None:
    before = [path.read_bytes() for path in files]
    for path in files:
        assert f"{path}: asked to hold two things" in refusal("env", "diff", *files, "--json", path)
    assert before == [path.read_bytes() for path in files]


def test_memory_and_distances_of_nodes_are_shown(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "here.json"  # of one reading: a virtual machine may be given memory while it runs
    shown = [line.split() for line in invoke("env", "--json", path).stdout.splitlines()]
    (node, *_) = msgspec.json.decode(path.read_bytes(), type=Environment).nodes or []
    assert ["distances", *", ".join(f"{to} {far}" for to, far in node.distances.items()).split()] in shown
    assert ["memory_bytes", *format_bytes(node.memory_bytes).split()] in shown
