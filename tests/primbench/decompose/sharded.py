"""A step of two ranks: a layer in tensor parallel, then one of which each rank holds a half. The second comes late."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (2,))
wide = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
parallelize_module(wide, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
halved = fully_shard(torch.nn.Linear(16, 4), mesh=mesh)
optimizer = torch.optim.SGD([*wide.parameters(), *halved.parameters()], lr=0.1, foreach=False)
alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
for _ in range(20):
    time.sleep(0.01 * dist.get_rank())
    x = torch.randn(8, 16)
    loss = halved(x + wide(x)).square().mean()
    loss.backward()
    dist.all_reduce(torch.zeros(1000), group=alone)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
