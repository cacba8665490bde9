"""NCCL as CuPy has it: the communicator of the ranks, and its names of types."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase

if TYPE_CHECKING:
    from primbench.devices import Device
    from primbench.distributed.group import Group


@functools.cache
def communicator(group: Group, device: Device) -> Any:
    """Connecting takes 0.1 s or more, so that the cases of a process share one. device: the current one.

    Raises UnsupportedCase where CuPy has no NCCL.
    """
    from cupy.cuda import nccl

    if not nccl.available:
        raise UnsupportedCase("CuPy finds no NCCL: pip install nvidia-nccl-cu13 (or nvidia-nccl-cu12, as CuPy)")
    mine = nccl.get_unique_id() if group.rank == 0 else b""
    numbers, kind = group.agree([list(mine), type(mine).__name__])
    identity = bytes(numbers) if kind == "bytes" else tuple(numbers)  # CuPy to version 13 takes a tuple
    return nccl.NcclCommunicator(group.size, identity, group.rank)


def datatype(dtype: str) -> int:
    from cupy.cuda import nccl

    found: int = getattr(nccl, f"NCCL_{dtype.upper()}")
    return found
