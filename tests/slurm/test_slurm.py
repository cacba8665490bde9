"""A fleet under Slurm's own srun: ranks, names, and a node that is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

PRIMBENCH = [sys.executable, "-P", "-m", "primbench"]
GEMM = ["gemm", "-n", "16", "-k", "16", "--backend", "numpy", "--device", "cpu"]


def test_each_node_measures_and_one_prints(invoke: Callable[..., Result], slurm: Path, tmp_path: Path) -> None:
    brief = ["-m", "16", "--min-time", "5ms", "--max-time", "20ms", "--one-at-a-time"]
    command = ["srun", "-N3", "-n6", *PRIMBENCH, *GEMM, *brief, "--fleet", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr
    assert 1 == done.stdout.count("gemm  numpy")
    assert "This is n1, 1 of 3; once all have ended: " in done.stderr
    found = json.loads(invoke("fleet", tmp_path, "--json", "-").stdout)
    assert (["n1", "n2", "n3"], [], 0) == (found["nodes"], found["missing"], found["unnamed"])


def test_a_node_that_is_lost_is_named(invoke: Callable[..., Result], slurm: Path, tmp_path: Path) -> None:
    sizes = [word for size in range(16, 24) for word in ("-m", str(size))]
    long = [*sizes, "--min-time", "0.2s", "--max-time", "0.2s"]
    command = ["srun", "-N3", "--no-kill", *PRIMBENCH, *GEMM, *long, "--fleet", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launched:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("n3-*.jsonl")):
            assert time.monotonic() < deadline, launched.poll()
            time.sleep(0.05)
        for process in of_node("n3"):
            os.kill(process, signal.SIGKILL)
        launched.communicate(timeout=120)
    result = invoke("fleet", tmp_path)
    assert (1, "3 nodes: not all was measured on n3.") == (result.exit_code, result.stdout.splitlines()[0])
    (tmp_path / "n3-2.jsonl").unlink()
    assert "2 nodes: missing: n3." == invoke("fleet", tmp_path).stdout.splitlines()[0]


def of_node(name: str) -> list[int]:
    """The processes of primbench that Slurm started on that node."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables, words = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"SLURMD_NODENAME={name}".encode() in variables.split(b"\0") and b"primbench" in words:
            found.append(int(folder.name))
    return found
