"""torch's own process group of the ranks: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase

if TYPE_CHECKING:
    from primbench.devices import Device
    from primbench.distributed.group import Group

_connected: dict[str, Group] = {}  # library -> whom the default process group connects


def connect(device: Device, group: Group) -> None:
    """Make the default process group, which stays until another one is needed.

    Every rank calls this at the same point. Raises UnsupportedCase in a process that has one of its own.
    """
    import torch
    import torch.distributed as distributed

    library = "nccl" if device.is_gpu else "gloo"
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
        device_id=torch.device(str(device)) if device.is_gpu else None,
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
