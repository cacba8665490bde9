"""All-reduce by torch.distributed: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.errors import UnsupportedCase
from primbench.kernels.allreduce._group import InPlace, check_group
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.allreduce.problem import Allreduce

_connected: dict[str, Group] = {}  # library -> whom the default process group connects


@kernel("allreduce", "torch")
def torch_allreduce(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """torch.distributed.all_reduce, which sums in place."""
    import torch.distributed as distributed

    check_group(problem, group)
    if not problem.in_place:
        raise UnsupportedCase("torch.distributed reduces in place only: ask for in_place=True")
    buffer = x.clone()
    _connect(backend.device, group)
    output = InPlace(lambda: buffer.copy_(x), lambda: backend.get(buffer))
    all_reduce = distributed.all_reduce

    def step() -> InPlace:
        all_reduce(buffer)
        return output

    return step


def _connect(device: str, group: Group) -> None:
    """Make the default process group; it stays until another one is needed.

    Raises UnsupportedCase in a process that has one of its own.
    """
    import torch
    import torch.distributed as distributed

    library = "gloo" if device == "cpu" else "nccl"
    if _connected.get(library) is group:
        return
    if _connected:
        _connected.clear()
        distributed.destroy_process_group()
    if distributed.is_initialized():
        raise UnsupportedCase("this process has a torch process group already: call destroy_process_group() first")
    distributed.init_process_group(
        library,
        store=_store(distributed, group),
        rank=group.rank,
        world_size=group.size,
        device_id=None if device == "cpu" else torch.device(device),
    )
    _connected[library] = group


def _store(distributed: Any, group: Group) -> Any:
    """The store by which the ranks find each other: rank 0 serves it at a free port of the address they use.

    It asks nobody for a secret, and neither do the connections that gloo and NCCL then make.
    """
    if group.size == 1:
        return distributed.HashStore()
    if group.rank:
        return distributed.TCPStore(group.address, group.agree(), group.size, is_master=False)
    listener = group.listen()  # the store itself would do so at all addresses
    address, port = listener.getsockname()[:2]
    own = group.address if address in ("::", "0.0.0.0") else address  # what others call this host may not lead there
    store = distributed.TCPStore(
        own, port, group.size, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    group.agree(port)
    return store
