"""`--fleet` of measuring commands: processes of this machine as nodes, by the variables of Slurm's srun."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.results import file as results_file
from primbench.system.cgroups import cgroup_folders

if TYPE_CHECKING:
    from click.testing import Result

TINY = ("gemm", "-m", 16, "-n", 16, "-k", 16, "--backend", "numpy", "--device", "cpu")
BRIEF = ("--min-time", "5ms", "--max-time", "20ms")


def variables_of(rank: int, *, of: int, local: int = 0) -> dict[str, str]:
    """What srun sets."""
    variables = {
        "SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": 1 + of, "SLURM_LOCALID": local, "SLURM_STEP_NUM_NODES": of,
        "SLURM_STEP_NODELIST": f"n[0-{of - 1}]", "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0, "SLURMD_NODENAME": f"n{rank}",
        "SLURM_NODEID": rank,
    }  # fmt: skip
    return {name: str(value) for name, value in variables.items()}


def started(
    folder: Path, rank: int, arguments: Sequence[object], *, of: int = 3, local: int = 0, before: Sequence[str] = ()
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-P", "-m", "primbench", *map(str, arguments), "--fleet", str(folder)],
        env={**os.environ, **variables_of(rank, of=of, local=local)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_each_node_has_a_file_and_the_first_one_prints(invoke: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    nodes = [started(folder, rank, [*TINY, *BRIEF, "--one-at-a-time"]) for rank in range(3)]
    beside = started(folder, 3, [*TINY, *BRIEF], local=1)
    said = [node.communicate(timeout=120) for node in (*nodes, beside)]
    assert [0] * 4 == [node.returncode for node in (*nodes, beside)], said
    assert said[0][0].startswith("gemm  numpy")
    assert f"This is n0, 1 of 3; once all have ended: primbench fleet {folder}\n" == said[0][1]
    assert [("", "")] * 3 == said[1:]
    assert ["n0-0.jsonl", "n1-1.jsonl", "n2-2.jsonl", "turns"] == sorted(path.name for path in folder.iterdir())
    spans = sorted(
        (record.started_utc, record.duration_s)
        for path in folder.glob("*.jsonl")
        for record in results_file.read(path).records
    )
    assert 3 == len(spans)
    member = results_file.read(folder / "n1-1.jsonl").header.member
    assert member is not None
    assert ("n1", 1, 3, "srun", "7.0") == (member.node, member.rank, member.of, member.launcher, member.job)
    found = json.loads(invoke("fleet", folder, "--json", "-").stdout)
    assert (["n0", "n1", "n2"], [], 0) == (found["nodes"], found["missing"], found["unnamed"])


LAUNCHERS = {
    "torchrun": {"RANK": "{0}", "WORLD_SIZE": "2", "LOCAL_RANK": "{0}", "LOCAL_WORLD_SIZE": "2",
                 "GROUP_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "a"},
    "srun": {"SLURM_PROCID": "{0}", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "{0}", "SLURM_STEP_NUM_NODES": "1",
             "SLURM_STEP_NODELIST": "n0", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
    "mpirun": {"OMPI_COMM_WORLD_RANK": "{0}", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "{0}",
               "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "b"},
}  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_process_measures_its_own_gpu(
    invoke: Callable[..., Result], tmp_path: Path, built_stub: Callable[[Path], str], launcher: str
) -> None:
    """NVML alone is a stand-in, which tells of two GPUs: what is measured is the CPU, as no GPU's device is here."""
    stub = built_stub(Path(__file__).parents[1] / "fixtures" / "nvml_stub.c")
    gpus = {"LD_PRELOAD": stub, "STUB_NAMES": "H,H", "SLURMD_NODENAME": "n0"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "primbench", *map(str, TINY[:7]), *BRIEF, "--fleet", str(tmp_path)],
            env={**os.environ, **gpus, **{name: text.format(rank) for name, text in LAUNCHERS[launcher].items()}},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [each.communicate(timeout=120) for each in processes]
    assert [0] * 2 == [each.returncode for each in processes], said
    names = [f"n0-gpu{number}.jsonl" for number in range(2)]
    assert names == sorted(path.name for path in tmp_path.glob("*.jsonl"))
    seen = [results_file.read(tmp_path / name).workers[0].environment.software.variables for name in names]
    assert ["0", "1"] == [each["CUDA_VISIBLE_DEVICES"] for each in seen if each is not None]
    found = json.loads(invoke("fleet", tmp_path, "--json", "-").stdout)
    assert ([f"n0:gpu{number}" for number in range(2)], [], 0) == (found["nodes"], found["missing"], found["unnamed"])
    told = invoke("fleet", tmp_path).stdout
    assert "2 GPUs" in told
    assert "CUDA_VISIBLE_DEVICES" not in told


def test_a_node_that_is_killed_costs_itself_only(invoke: Callable[..., Result], tmp_path: Path) -> None:
    several = [word for size in range(16, 24) for word in ("-m", size)]
    arguments = ["gemm", *several, *TINY[3:], "--min-time", "0.2s", "--max-time", "0.2s"]
    nodes = [started(tmp_path, rank, arguments, of=2) for rank in range(2)]
    path = tmp_path / "n1-1.jsonl"
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b'"kind":"record"') < 1:
        assert time.monotonic() < deadline, nodes[1].communicate()
        time.sleep(0.05)
    nodes[1].send_signal(signal.SIGKILL)
    for node in nodes:
        node.communicate(timeout=120)
    assert [0, -signal.SIGKILL] == [node.returncode for node in nodes]
    result = invoke("fleet", tmp_path)
    assert (1, "2 nodes: not all was measured on n1.") == (result.exit_code, result.stdout.splitlines()[0])
    assert "not run: its node died, was stopped, or still measures" in result.stdout
    assert 8 == len(results_file.read(tmp_path / "n0-0.jsonl").records)


@pytest.mark.wheel
def test_a_node_that_does_not_come_costs_its_own_links(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    for name, value in variables_of(0, of=2).items():
        monkeypatch.setenv(name, value)
    # To which the time-out of two more cases is added.
    monkeypatch.setattr("primbench.cli.member._patience_s", lambda how: 4.0 - 2 * how.timeout_s)
    result = invoke(*TINY, *BRIEF, "--timeout", "20s", "--links", 5, "--fleet", tmp_path)
    assert 0 == result.exit_code
    assert "n0: node 1 did not come: it died, or was stopped\n" in result.stderr
    told = invoke("fleet", tmp_path)
    assert 1 == told.exit_code
    assert told.stdout.splitlines()[0].endswith(" 1 link: not all was measured on n0+node 1.")


def test_a_fleet_that_measured_nothing_fails(invoke: Callable[..., Result], tmp_path: Path) -> None:
    asked = ("gemm", "-m", 8, "-n", 8, "-k", 8, "--dtype", "bf16", "--device", "cpu", "--backend", "numpy")
    told = invoke(*asked, "--fleet", tmp_path)
    assert 0 == told.exit_code  # or mpirun would end the others
    assert re.search(r"^\S+: Nothing was measured: NumPy has no bfloat16", told.stderr, re.MULTILINE)
    assert 1 == invoke("fleet", tmp_path).exit_code


def test_a_node_alone_says_so(invoke: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "a" / "fleet"
    result = invoke(*TINY, "--dry-run", "--fleet", folder)
    assert 0 == result.exit_code
    assert ", 1 of 1, which no launcher started with others; once all have ended: " in result.stderr
    again = invoke(*TINY, "--dry-run", "--fleet", folder)
    assert (2, "") == (again.exit_code, again.stdout)
    assert "exists; name another folder, or measure this node again with --overwrite" in again.stderr


@pytest.mark.parametrize("more", [("--output", "x.jsonl"), ("--csv", "-"), ("--resume", "x.jsonl"), ("--save-as", "x")])
def test_what_would_be_one_file_of_all_is_refused(
    refusal: Callable[..., str], tmp_path: Path, more: tuple[str, str]
) -> None:
    said = refusal(*TINY, *more, "--fleet", tmp_path)
    assert said.startswith(f"{more[0]} and --fleet: each node writes a file of its own into ")
    assert [] == list(tmp_path.iterdir())


def test_turns_are_of_a_fleet(refusal: Callable[..., str]) -> None:
    assert "--one-at-a-time: of the nodes of a fleet: name its folder with --fleet" == refusal(*TINY, "--one-at-a-time")


def test_nodes_are_not_compared_with_places(refusal: Callable[..., str], tmp_path: Path) -> None:
    said = refusal(*TINY, "--versus", "host", "--fleet", tmp_path)
    assert "--versus and --fleet: ask for one of them" == said


@pytest.mark.quiet
def test_a_node_with_a_quota_is_found_and_its_quota_named(
    invoke: Callable[..., Result], tmp_path: Path, ahead_of_others: None
) -> None:
    """One node is measured as it is, and stands for all healthy ones, as this machine is not equally fast at all times;
    the other one within a control group that has a tenth of a CPU.
    """
    arguments = [*TINY, "--threads", 1, "--min-time", "0.3s", "--max-time", "0.3s"]
    with quota(0.1) as procs:
        limited = ["sh", "-c", f'echo $$ > {procs} && exec "$@"', "sh"]
        nodes = [started(tmp_path, 0, arguments, of=6), started(tmp_path, 1, arguments, of=6, before=limited)]
        said = [node.communicate(timeout=120) for node in nodes]
    assert [0, 0] == [node.returncode for node in nodes], said
    for rank in range(2, 6):
        text = (tmp_path / "n0-0.jsonl").read_text().replace('"node":"n0","rank":0', f'"node":"n{rank}","rank":{rank}')
        (tmp_path / f"n{rank}-{rank}.jsonl").write_text(text)
    result = invoke("fleet", tmp_path, "--json", "-")
    (node,) = json.loads(result.stdout)["unhealthy"]
    assert (1, "n1") == (result.exit_code, node["node"])
    assert max(each["ratio"] for each in node["outlying"]) > 2
    assert any("quota" in words for words in node["causes"]), node
    assert "CPU" in node["likely"]
    assert any("the CPU quota held back n1 in " in words for words in node["evidence"]), node["evidence"]


@contextmanager
def quota(cpus: float) -> Iterator[Path]:
    """The file to write a process's number into, of a control group beside all others that may use so many CPUs."""
    above = cgroup_folders("cpu")
    if not above:
        pytest.skip("no control group for CPUs: needs root")
    folder = above[-1] / f"primbench-test-{os.getpid()}"
    is_v1 = not (above[-1] / "cgroup.controllers").exists()
    try:
        folder.mkdir()
        (folder / ("cpu.cfs_quota_us" if is_v1 else "cpu.max")).write_text(
            f"{cpus * 1e5:.0f}" + " 100000" * (not is_v1)
        )
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"a control group with a quota needs root, and one that may have children: {error}")
    yield folder / "cgroup.procs"
    folder.rmdir()
