"""A fleet under Slurm's own srun: ranks, names, a link, a node that is lost; an all-reduce, and a watched job."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.cli.processes import processes_of
from primbench.cli.watch import others_of
from primbench.watching.watch import Watch

if TYPE_CHECKING:
    from click.testing import Result

PRIMBENCH = [sys.executable, "-P", "-m", "primbench"]
THREE = ["-N3", "-w", "n1,n2,n3"]  # of six: any others are taken where one of these is about to be free
GEMM = ["gemm", "-n", "16", "-k", "16", "--backend", "numpy", "--device", "cpu"]


def test_each_node_measures_and_one_prints(invoke: Callable[..., Result], slurm: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    brief = ["-m", "16", "--min-time", "5ms", "--max-time", "20ms", "--one-at-a-time", "--links", "1"]
    command = ["srun", *THREE, "-n6", *PRIMBENCH, *GEMM, *brief, "--fleet", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr
    assert 1 == done.stdout.count("gemm  numpy")
    assert "This is n1, 1 of 3; once all have ended: " in done.stderr
    found = json.loads(invoke("fleet", tmp_path, "--json", "-").stdout)
    assert (["n1", "n2", "n3"], [], 0) == (found["nodes"], found["missing"], found["unnamed"])
    links = found["links"]
    assert (["n2+n3"], 0, {}) == (links["nodes"], links["unnamed"], links["cases"][0]["unmeasured"])


def number_of(job: subprocess.Popen[bytes]) -> str:
    """Which it says first, and the node a little later: n1, the one that scontrol asks of those on one machine."""
    assert job.stdout is not None
    number, deadline = job.stdout.readline().decode().strip(), time.monotonic() + 60
    while subprocess.run(["scontrol", "listpids", number], capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, number
        time.sleep(0.1)
    return number


def test_a_step_s_processes_on_a_node_are_watched(invoke: Callable[..., Result], slurm: Path) -> None:
    with subprocess.Popen(["srun", "-w", "n1", "sh", "-c", "echo $SLURM_JOB_ID; sleep 60; :"], stdout=-1) as job:
        number = number_of(job)
        *_, last = invoke("watch", f"slurm:{number}.0", "--for", "0.3s", "-o", "-").stdout.splitlines()
        job.terminate()
    assert 2 == json.loads(last)["whole"]["process_count"], "a shell, and what it started"
    assert "be on a node that it runs on" in invoke("watch", f"slurm:{number}7").stderr


def test_steps_that_begin_later_are_watched_until_the_job_ends(slurm: Path, tmp_path: Path) -> None:
    until = "while ! [ -e {} ]; do sleep 0.1; done"
    first, second = until.format(tmp_path / "first"), until.format(tmp_path / "second")
    steps = f"srun -n1 sh -c 'echo $SLURM_JOB_ID; {first}'; srun -n1 sh -c 'echo $$ > {tmp_path}/pid; {second}'"
    with subprocess.Popen(["salloc", "-w", "n1", "-Q", "sh", "-c", steps], stdout=-1) as job:
        try:
            name = f"slurm:{number_of(job)}"
            pids = processes_of(name)
            watch, is_followed = Watch(pids, 60, others=others_of(name, pids[0])), False
            for _ in watch:
                (tmp_path / "first").touch()
                if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() == f"{watch.job.pid}\n":
                    is_followed = True
                    (tmp_path / "second").touch()
        finally:
            for name in ("first", "second"):  # by which the job ends
                (tmp_path / name).touch()
    assert (True, True) == (watch.ended, is_followed)


def test_an_all_reduce_over_the_nodes_is_one_table(slurm: Path) -> None:
    pytest.importorskip("torch")
    words = ["allreduce", "--backend", "torch", "--device", "cpu", "--bytes", "1KiB", "--max-time", "50ms"]
    done = subprocess.run(
        ["srun", "-N3", "-n3", *PRIMBENCH, *words], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "MASTER_ADDR": "127.0.0.1"},
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    heading, columns, row = done.stdout.splitlines()[:3]
    assert heading.startswith("allreduce  torch ")
    shown = dict(zip(*(re.split(r"\s{2,}", line.strip()) for line in (columns, row)), strict=True))
    assert ("3", "ok") == (shown["ranks"], shown["check"])


def test_a_node_that_is_lost_is_named(invoke: Callable[..., Result], slurm: Path, tmp_path: Path) -> None:
    sizes = [word for size in range(16, 24) for word in ("-m", str(size))]
    long = [*sizes, "--min-time", "0.2s", "--max-time", "0.2s"]
    command = ["srun", *THREE, "--no-kill", *PRIMBENCH, *GEMM, *long, "--fleet", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launched:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("n3-*.jsonl")):
            assert time.monotonic() < deadline, launched.poll()
            time.sleep(0.05)
        for process in of_node("n3", tmp_path):
            os.kill(process, signal.SIGKILL)
        launched.communicate(timeout=120)
    result = invoke("fleet", tmp_path)
    assert (1, "3 nodes: not all was measured on n3.") == (result.exit_code, result.stdout.splitlines()[0])
    (tmp_path / "n3-2.jsonl").unlink()
    assert "2 nodes: missing: n3." == invoke("fleet", tmp_path).stdout.splitlines()[0]


def of_node(name: str, fleet: Path) -> list[int]:
    """What Slurm started on that node of this fleet: tests beside this one have nodes of the same names."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables, words = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"SLURMD_NODENAME={name}".encode() in variables.split(b"\0") and os.fsencode(fleet) in words.split(b"\0"):
            found.append(int(folder.name))
    return found
