"""A script's step on a GPU: how long that is busy with it, and how long the host has to do, by torch's profiler."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import primbench
from primbench import suites
from primbench.environment.devices import has_gpu_node

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]
STEPS = """
import torch
weight = torch.nn.Parameter(torch.randn({size}, {size}, device="cuda"))
optimizer = torch.optim.SGD([weight], 1e-3)
seen = torch.zeros(())
for _ in range(60):
    found = weight
    for _ in range({calls}):
        found = {call}
    found.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    seen += 1
    {waits}
"""


@pytest.mark.parametrize(
    ("size", "calls", "call", "waits", "is_of_gpu"),
    [
        (8, 200, "found.relu()", "", False),
        (8192, 4, "found @ weight", "", True),  # the host is dozens of steps ahead
        (8192, 4, "found @ weight", "weight.sum().item()", True),
        (8192, 4, "found @ weight", "torch.cuda.synchronize()", True),
    ],
)
def test_the_host_and_the_gpu_are_timed_apart(
    tmp_path: Path, size: int, calls: int, call: str, waits: str, *, is_of_gpu: bool
) -> None:
    """Of which one has ten times as much to do as the other."""
    pytest.importorskip("torch")
    script, captured = tmp_path / "steps.py", tmp_path / "step.toml"
    script.write_text(STEPS.format(size=size, calls=calls, call=call, waits=waits))
    made = subprocess.run(
        [sys.executable, "-m", "primbench", "capture", str(script), "-o", str(captured), "--step", "5"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert 0 == made.returncode, made.stderr
    said = suites.study(captured).captured
    assert said is not None
    assert len(said.on_gpu_s) == len(said.host_s) == 6
    assert [on_gpu_s > host_s for on_gpu_s, host_s in zip(said.on_gpu_s, said.host_s, strict=True)] == [is_of_gpu] * 6
    assert min(said.on_gpu_s) > 0
    assert statistics.median(said.inside_s) > 0  # of one step all may be taken for a wait
    assert "relu" in said.operators_s or is_of_gpu


def test_an_operator_with_a_kernel_for_gpus_stays_whole() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(64, 128, device="cuda", requires_grad=True)
    norm = torch.nn.RMSNorm(128, device="cuda")
    norm(x).sum().backward()
    with primbench.capture() as step:
        norm(x).sum().backward()
    names = {call.name for call in step.calls}
    if not hasattr(torch.ops.aten, "_fused_rms_norm"):
        pytest.skip(f"torch {torch.__version__} has no kernel for it")
    assert {"_fused_rms_norm", "_fused_rms_norm_backward"} <= names
    assert not {"pow", "mean", "rsqrt"} & names
