"""A step of two ranks, a GPU each: which of them comes last, though the wait is in a kernel of NCCL's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from primbench import suites
from primbench.environment.devices import has_gpu_node

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]
STEPS = """
import os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(512, 512).cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(40):
    if rank == 1:
        time.sleep(0.05)
    model(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.usefixtures("two_gpus")
def test_the_rank_that_sleeps_is_as_long_in_collectives_as_they_take_and_the_other_one_waits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script, captured = tmp_path / "ddp.py", tmp_path / "step.toml"
    script.write_text(STEPS)
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "primbench", "capture", str(script)]
    made = subprocess.run(
        [sys.executable, *command, "-o", str(captured), "--step", "5"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert 0 == made.returncode, made.stderr
    said = suites.study(captured).captured
    assert said is not None
    waiting_s, sleeping_s = said.exposed_s
    assert waiting_s > 0.03 > sleeping_s
    assert len(said.host_s) == len(said.on_gpu_s) == len(said.inside_s) > 0
