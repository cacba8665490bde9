"""The way between machines: whether adapters can be used from here, by which addresses, and reach GPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.finding import Finding, listed, unseen
from primbench.environment.rdma import of_amazon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.finding import Severity
    from primbench.doctor.place import Place

RANK = 8

DMA_BUF_SINCE = (5, 12)  # Linux; with the open modules of NVIDIA's driver: GPUDirect RDMA, "Supported"
ROCE_V2 = "RoCE v2"


def rdma_files(place: Place) -> Iterator[Finding]:
    """Whether the adapters that /sys shows can be opened, too: a container has files of them if it is given them."""
    adapters, files = place.environment.machine.infiniband or [], place.environment.devices.infiniband_files
    if not adapters:
        return
    yield from unseen("rdma-files", place.environment.devices, "infiniband_files")
    if files is None:
        return
    verbs = [path for path in files if "uverbs" in path]
    if len(verbs) < len(adapters):
        yield Finding(
            check="rdma-files",
            severity=_severity(place),
            summary=f"{len(adapters)} adapters, and files to use {len(verbs) or 'none'} of them by: without any, NCCL "
            "goes by sockets, which takes ten times as long and more",  # NVIDIA/nccl#451, aws/aws-ofi-nccl#1020
            evidence=[
                f"/sys/class/infiniband: {listed(adapters)}",
                f"/dev/infiniband/uverbs*: {listed(verbs) or 'none'}",
            ],
            distorts=["collective"],
            advice=place.advice(
                "hand the device files in, or load ib_uverbs on the host",
                engine="--device /dev/infiniband --ulimit memlock=-1",
                kubernetes="ask for the adapters by their device plugin (rdma/..., vpc.amazonaws.com/efa)",
            ),
        )


def _severity(place: Place) -> Severity:
    """Without GPUs NCCL is not used."""
    return "warning" if place.gpus else "note"


def gpu_direct(place: Place) -> Iterator[Finding]:
    """Whether adapters reach GPU memory themselves, by a module or by dma-buf."""
    machine, devices = place.environment.machine, place.environment.devices
    if not place.gpus or len(of_amazon(machine.infiniband_vendors)) == len(machine.infiniband or []):
        return
    yield from unseen("gpu-direct", machine, "peer_memory")
    yield from unseen("gpu-direct", devices, "driver_is_open")
    by_dma_buf = devices.driver_is_open is not False and (place.kernel_version or DMA_BUF_SINCE) >= DMA_BUF_SINCE
    if machine.peer_memory == [] and not by_dma_buf:
        yield Finding(
            check="gpu-direct",
            severity="warning",
            summary="GPUDirect RDMA is off: what a GPU sends to another machine goes through this one's memory",
            evidence=[
                "/sys/module has neither nvidia_peermem nor nv_peer_mem",
                f"no dma-buf: kernel {machine.kernel}, the driver's modules are "
                f"{'open' if devices.driver_is_open else 'not the open ones (/proc/driver/nvidia/version)'}",
            ],
            distorts=["collective"],
            advice="on each host, as root, load the module at boot, or install the driver's open modules",
            fix=["modprobe nvidia-peermem"],
        )


def roce_addresses(place: Place) -> Iterator[Finding]:
    """Whether each adapter on Ethernet has an address of this place, and at one index: NCCL is told one for all."""
    machine = place.environment.machine
    if machine.infiniband:
        yield from unseen("roce-addresses", machine, "roce_addresses")
    ports = _by_port(machine.roce_addresses or [])
    asked = place.variables.get("NCCL_IB_GID_INDEX", "").strip()
    reason = _wrong_by_order(ports, asked) if asked not in ("", "-1") else _wrong_by_itself(ports)
    if reason:
        yield Finding(
            check="roce-addresses",
            severity=_severity(place),
            summary=f"{reason}: NCCL cannot connect, or takes another way",
            evidence=[
                *(f"{port}: {', '.join(found) or 'none'}" for port, found in ports.items()),
                "/sys/class/infiniband/*/ports/*/gid_attrs/types" + (f", NCCL_IB_GID_INDEX={asked}" if asked else ""),
            ],
            distorts=["collective"],
            advice="leave NCCL_IB_GID_INDEX unset with NCCL 2.21 or newer, which chooses for each port; give a pod its "
            "own addresses before the job starts (show_gids tells them)",
        )


def _by_port(addresses: list[str]) -> dict[str, list[str]]:
    """Port -> its addresses as "3 RoCE v2 IPv4"."""
    ports: dict[str, list[str]] = {}
    for each in addresses:
        port, _, address = each.partition(" ")
        ports.setdefault(port, []).extend([] if address == "none" else [address])
    return ports


def _wrong_by_order(ports: dict[str, list[str]], asked: str) -> str | None:
    without = [
        port for port, found in ports.items() if not any(each.startswith(f"{asked} {ROCE_V2}") for each in found)
    ]
    return f"NCCL_IB_GID_INDEX={asked} is no RoCE v2 address of {listed(without)} here" if without else None


def _wrong_by_itself(ports: dict[str, list[str]]) -> str | None:
    without = [port for port, found in ports.items() if not any(ROCE_V2 in each for each in found)]
    if without:
        return f"{listed(without)} {'have' if len(without) > 1 else 'has'} no RoCE v2 address of this place"
    gaps = [port for port, found in ports.items() if [*map(_index, found)] != [str(each) for each in range(len(found))]]
    return f"the addresses of {listed(gaps)} do not begin at 0, or have gaps between them" if gaps else None


def _index(address: str) -> str:
    return address.partition(" ")[0]
