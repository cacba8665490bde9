"""Studies on a real GPU: an arm that sees none, and one with another NumPy, which is not torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.spec.study import AGAIN

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]
SUITE = 'launch = [{ call = "dispatch" }]\n'
QUICK = ("--pairs", "2", "--min-time", "5ms", "--max-time", "50ms", "--fail-on", "never")


def study(folder: Path, *arguments: Any) -> tuple[subprocess.CompletedProcess[str], Results]:
    """Of one launch, in two pairs, the host against itself included. folder: for its files."""
    suite, path = folder / "suite.toml", folder / "results.jsonl"
    suite.write_text(SUITE)
    words = ["study", suite, *QUICK, "--arm", "host", "--self", "-o", path, *arguments]
    command = [sys.executable, "-P", "-m", "primbench", *map(str, words)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=240, check=False)
    assert path.exists(), done.stderr
    return done, results_file.read(path)


def statuses(found: Results) -> dict[str, set[str]]:
    asked = found.header.study
    assert asked is not None
    return {arm.name: {each.status for each in found.records if each.case.arm == arm.name} for arm in asked.arms}


@pytest.mark.parametrize("backend", ["torch", "cupy", "numba"])
def test_an_arm_that_sees_no_gpu_is_one_line_and_the_others_go_on(backend: str, tmp_path: Path) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    blind = "host:env.CUDA_VISIBLE_DEVICES=,name=blind"
    done, found = study(tmp_path, "--arm", blind, "--backend", backend, "--device", "cuda:0")
    assert 0 == done.returncode, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"blind runs nothing with {backend} on cuda:0: backend {backend} on cuda:0: ")
    assert line.endswith(
        ": no GPU is visible inside: leave out env.CUDA_VISIBLE_DEVICES=, or name one that nvidia-smi shows"
    )
    assert {"host": {"ok"}, "blind": {"skipped"}, f"host{AGAIN}": {"ok"}} == statuses(found)
    assert "itself" in done.stdout, "two pairs hardly show that the host is equivalent to itself; they compare it"


@pytest.fixture(scope="module")
def other_numpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: this NumPy under another version, since nothing can be fetched where GPUs are."""
    folder, package = tmp_path_factory.mktemp("other"), Path(np.__file__).parent
    for each in (package, package.with_name("numpy.libs")):
        if each.exists():
            shutil.copytree(each, folder / each.name)
    version = folder / "numpy/version.py"
    version.write_text(version.read_text().replace(np.__version__, "1.0"))
    return folder


@pytest.mark.parametrize(("backend", "device", "runs"), [("torch", "cuda:0", True), ("numpy", "cpu", False)])
def test_another_numpy_ends_an_arm_for_numpy_and_not_for_torch(
    backend: str, device: str, runs: bool, other_numpy: Path, tmp_path: Path
) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    path = os.pathsep.join(filter(None, (str(other_numpy), os.environ.get("PYTHONPATH"))))
    arm = f"host:env.PYTHONPATH={path},name=other"
    done, found = study(tmp_path, "--arm", arm, "--backend", backend, "--device", device)
    assert 0 == done.returncode, done.stderr
    assert {"host": {"ok"}, "other": {"ok" if runs else "skipped"}, f"host{AGAIN}": {"ok"}} == statuses(found)
    told = [f"other runs nothing with numpy on cpu: numpy 1.0, and {np.__version__} in host: a difference would"]
    assert ([] if runs else told) == [line[: len(told[0])] for line in done.stderr.splitlines()]
