"""A training loop as people write it: DistributedDataParallel, a DataLoader, AMP and two batches a step."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
arguments = parser.parse_args()

dist.init_process_group("gloo" if arguments.device == "cpu" else "nccl")
device = torch.device(arguments.device, int(os.environ["LOCAL_RANK"])) if arguments.device == "cuda" else "cpu"
if arguments.device == "cuda":
    torch.cuda.set_device(device)
torch.manual_seed(int(os.environ["RANK"]))
data = TensorDataset(torch.randn(4096, 16), torch.randint(0, 4, (4096,)))
loader = DataLoader(data, batch_size=8, num_workers=1, shuffle=True, pin_memory=arguments.device == "cuda")
module = torch.nn.Sequential(torch.nn.Linear(16, arguments.width), torch.nn.ReLU(), torch.nn.Linear(arguments.width, 4))
model = DistributedDataParallel(module.to(device))
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(arguments.device)
for number, (images, labels) in enumerate(loader, 1):
    with torch.autocast(arguments.device, torch.bfloat16):
        output = model(images.to(device, non_blocking=True))
        loss = torch.nn.functional.cross_entropy(output, labels.to(device, non_blocking=True)) / 2
    scaler.scale(loss).backward()
    if number % 2 == 0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
dist.destroy_process_group()
