"""A training loop as people write it: DistributedDataParallel, a DataLoader, AMP and two batches a step."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=32)
arguments = parser.parse_args()

dist.init_process_group("gloo")
torch.manual_seed(int(os.environ["RANK"]))
data = TensorDataset(torch.randn(4096, 16), torch.randint(0, 4, (4096,)))
loader = DataLoader(data, batch_size=8, num_workers=1, shuffle=True)
module = torch.nn.Sequential(torch.nn.Linear(16, arguments.width), torch.nn.ReLU(), torch.nn.Linear(arguments.width, 4))
model = DistributedDataParallel(module)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cpu")
for number, (images, labels) in enumerate(loader, 1):
    with torch.autocast("cpu", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels) / 2
    scaler.scale(loss).backward()
    if number % 2 == 0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
dist.destroy_process_group()
