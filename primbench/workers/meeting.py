"""How the ranks of a case's worker come together: the processes, their network, and a device for each."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from primbench.devices import Device
from primbench.distributed import networks
from primbench.distributed.channel import Channel
from primbench.distributed.group import Group, Refused, host_identity
from primbench.distributed.ranks import LocalRanks
from primbench.errors import PlacementError
from primbench.gpu.nvidia import nvml
from primbench.workers.protocol import Enlist, Outcome, Start

if TYPE_CHECKING:
    from collections.abc import Callable


def enlist(start: Start) -> Group:
    """The ranks at the other ends of the inherited sockets, and this process as their rank 0.

    Where there are none they are started here, inside the container: they end with this process.
    """
    sockets = [socket.socket(fileno=descriptor) for descriptor in start.peers]
    channels = [Channel(each) for each in sockets or LocalRanks(start.ranks - 1, verbose=True).sockets]
    for rank, channel in enumerate(channels, 1):
        channel.send(Enlist(rank=rank, size=start.ranks, start=start))
    return Group(0, start.ranks, channels, start.address, joined=start.network is not None)


def come_together(group: Group, start: Start, local_rank: int) -> str | None:
    """Join the network of the ranks, if they have one, and choose this rank's device; None where it is left open.

    Raises Refused on every rank where one of them cannot.
    """
    if start.network is not None:
        networks.join(group, start.network)
    if group.size == 1:
        return start.device
    return str(agree_on_devices(group, Device.parse(str(start.device)), local_rank))


def agree_on_devices(group: Group, device: Device, local_rank: int) -> Device:
    """The device of this rank. device: that of rank 0; the ranks of a host take it and those after it.

    Raises Refused on every rank where two of them would share a GPU.
    """
    if not device.is_gpu:
        return device
    number = device.index + local_rank
    try:
        # A launcher may show each rank its own GPU alone.
        mine = replace(device, index=number % max(1, nvml.device_count()))
        identity = f"{host_identity()} {nvml.pci_address(mine)}"
    except PlacementError:  # no NVML: a framework will tell whether there are so many
        mine = replace(device, index=number)
        identity = f"{host_identity()} {mine}"
    found = group.agree(identity, lambda identities: len(set(identities)))
    if found < group.size:
        raise Refused(f"{group.size} ranks need {group.size} GPUs, and see {found}: fewer ranks, or device=cpu")
    return mine


def refused_by(agree: Callable[[], object]) -> Outcome | None:
    """The outcome of every case where the ranks do not come together; None where they do."""
    try:
        agree()
    except Refused as reason:
        return Outcome(status="skipped", reason=str(reason))
    return None
