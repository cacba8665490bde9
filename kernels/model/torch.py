"""Whole models on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.distributed.process_group import connect
from primbench.errors import UnsupportedCase
from primbench.kernels.model._disk import from_disk
from primbench.kernels.model._step import Inference, Training
from primbench.problem import Step, described, kernel
from primbench.registry.networks import network

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.kernels.model.problem import Model
    from primbench.problem.network import Network

CALLS_BEFORE_CAPTURE = 3
AT_ONCE_BYTES = 65_536  # of pageable memory, that the driver takes without waiting for what was queued before
# Field -> its values that are for GPUs, and what a CPU has.
_OF_GPUS = {
    "data": (("host",), "its inputs in its own memory"),
    "compile": (("graph", "inductor"), "eager"),
    "math_mode": (("tf32",), "ieee"),
    "dtype": (("float16",), "bfloat16"),
    "cudnn_benchmark": ((True,), "no cuDNN"),
}


@kernel("model", "torch")
def torch_model(backend: Any, problem: Model, *inputs: Any, group: Group = ALONE) -> Step:
    """Raises UnsupportedCase for what a CPU cannot do, or the network cannot, or for other ranks than take part."""
    import torch

    *batch, draws = inputs
    found = network(problem.network, draws=bool(backend.get(draws)[0]))
    on_gpu = backend.device.is_gpu
    group.check_size(problem.ranks)
    refuse(problem, found, on_gpu=on_gpu)
    if on_gpu:
        set_precision(torch, problem)
    host = [_host_copy(each, pinned=problem.pin_memory) for each in batch] if problem.data == "host" else []
    if problem.ranks > 1:
        return _on_ranks(backend, problem, found, host, batch, group=group)
    return _alone(backend, problem, found, host, batch)


def _alone(backend: Any, problem: Model, network: Network, host: Sequence[Any], batch: Sequence[Any]) -> Step:
    made = (Training if problem.is_training else Inference)(network, problem, backend.device, tuple(batch))
    if problem.compile == "inductor":
        made.module.compile()
    if problem.data == "disk" and network.draws:  # else it is to be checked, on the batch that it was given
        return from_disk(backend.device, problem, network, made)
    if problem.compile == "graph":
        return described(_as_graph(backend, made), algorithm="one CUDA graph", host_buffers=[])
    return described(
        _fed(host, batch, made), host_buffers=_buffers(host), waits=_why_it_waits(host, pinned=problem.pin_memory)
    )


def _why_it_waits(host: Sequence[Any], *, pinned: bool) -> str:
    """Why the host cannot run ahead of a step that is fed; "" where it can.

    NVIDIA, CUDA Driver API, "API synchronization behavior": pageable memory is copied once the stream is done.
    """
    if pinned or all(each.numel() * each.element_size() <= AT_ONCE_BYTES for each in host):
        return ""
    return "a copy from pageable memory waits for the GPU before it begins"


def _buffers(host: Sequence[Any]) -> list[tuple[Any, None]]:
    return [(each.numpy(), None) for each in host]


def _on_ranks(
    backend: Any, problem: Model, network: Network, host: Sequence[Any], batch: Sequence[Any], *, group: Group
) -> Step:
    """The step of one rank, and its times without all-reduce.

    No graph is made of it: DistributedDataParallel looks at its events from time to time, and waits for them.
    """
    from torch.distributed import get_backend

    from primbench.kernels.model._ranks import OnRanks
    from primbench.timing.alternation import in_alternation

    connect(backend.device, group)
    made = OnRanks(network, problem, backend.device, tuple(batch), group=group)
    step = _fed(host, batch, made)
    taken = in_alternation(backend, step, _fed(host, batch, made.alone))
    return described(
        step,
        algorithm=f"DistributedDataParallel over {get_backend()}",
        host_buffers=_buffers(host),
        stream_only=True,
        counts={"allreduced_bytes": made.gradient_bytes},
        others={
            "with_allreduce_s": lambda method, pace: taken(method, pace)[0],
            "without_allreduce_s": lambda method, pace: taken(method, pace)[1],
        },
    )


def refuse(problem: Model, found: Network, *, on_gpu: bool) -> None:
    if problem.dtype != "float32" and not found.autocast:
        raise UnsupportedCase(f"model {problem.network} works in float32 alone: leave --dtype away")
    for field, (values, instead) in _OF_GPUS.items():
        if not on_gpu and (value := getattr(problem, field)) in values:
            raise UnsupportedCase(f"model {field}={value} is for GPUs: a CPU has {instead}")


def set_precision(torch: Any, problem: Model) -> None:
    """Say explicitly what torch would otherwise take from the process; backend.close() undoes it."""
    allowed = problem.math_mode == "tf32"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = problem.cudnn_benchmark


def _host_copy(array: Any, *, pinned: bool) -> Any:
    host = array.cpu()
    return host.pin_memory() if pinned else host


def _fed(host: Sequence[Any], there: Sequence[Any], step: Callable[[], Any]) -> Step:
    """The step on a batch that is copied first, where it is on the host; from pinned memory that waits for nothing."""
    if not host:
        return step

    def copy_and_step() -> Any:
        for source, target in zip(host, there, strict=True):
            target.copy_(source, non_blocking=True)
        return step()

    return copy_and_step


def _as_graph(backend: Any, made: Callable[[], Any]) -> Step:
    """The step captured once. torch asks for some calls before that, on the stream that captures."""
    for _ in range(CALLS_BEFORE_CAPTURE):
        made()
    backend.synchronize()
    outputs: list[Any] = []
    graph = backend.capture(lambda: outputs.append(made()))

    def replay() -> Any:
        graph.replay()
        return outputs[0]

    return replay
