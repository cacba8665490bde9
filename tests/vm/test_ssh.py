"""The machine of two NUMA nodes as another machine of a study, by a server of ssh in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from primbench.results import file as results_file

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

QUICK = ["--backend", "numpy", "--device", "cpu", "--min-time", "5ms", "--max-time", "20ms"]
OF_THIS_CPU = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_L2_SIZE": "512"}
ONCE = ["--pairs", "1", "--pairing", "one-after-the-other"]  # which starts no worker to see that it cannot take turns


def test_a_study_sets_a_node_of_the_machine_beside_this_one(
    on_two_nodes: Callable[..., CompletedProcess[str]],
    served: Path | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if served is None:
        pytest.skip("a machine that ssh reaches needs: apt-get install openssh-server")
    (tmp_path / "one.toml").write_text("[[gemm]]\nm = 64\nn = 64\nk = 64\n")
    node = f"ssh:vm,config={served},python={sys.executable},cpuset=2-3,mems=1,numa-node=1,name=node"
    other_code = f"ssh:vm,config={served},python={sys.executable},env.OPENBLAS_CORETYPE=Haswell,name=other-code"
    for name, value in OF_THIS_CPU.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "primbench", "study", tmp_path / "one.toml", "--arm", "host", "--arm", node,
         "--arm", other_code,
         *ONCE, *QUICK, "-o", tmp_path / "study.jsonl"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    found = results_file.read(tmp_path / "study.jsonl")
    assert [("host", "ok"), ("node", "ok"), ("other-code", "skipped")] == sorted(
        (each.case.arm, each.status) for each in found.records
    ), done
    (dead,) = [each.reason for each in found.records if each.case.arm == "other-code"]
    assert dead == (
        "worker died of signal SIGILL: OPENBLAS_CORETYPE=Haswell has a library take code that this CPU may lack the "
        "instructions for: unset it"
    ), "what is emulated has no AVX"
    (there,) = [worker for worker in found.workers if worker.arm and worker.arm.name == "node"]
    assert ([2, 3], [1]) == (there.environment.limits.cpus_allowed, there.environment.limits.memory_nodes_allowed)
    assert there.sent is not None
    assert OF_THIS_CPU.keys() <= there.sent.left.keys()
    assert OF_THIS_CPU.keys().isdisjoint(there.environment.software.variables or {})
    assert "a difference is a machine effect" in done.stdout
    assert "not given, since they are of this machine: OPENBLAS_CORETYPE (code for a CPU)" in done.stdout
    left = on_two_nodes("find", "/sys/fs/cgroup", "/run", "-maxdepth", "1", "-name", "primbench-*")
    assert "" == left.stdout
