"""Where the GPUs are: their nodes, the CPUs near them, and what stands between them and each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.causes.gpu import GPU_FILE
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.doctor.table import unseen
from primbench.system.files import format_cpu_list
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place
    from primbench.numa.topology import Node

RANK = 3

# Before it, a subset chosen by CUDA_VISIBLE_DEVICES made launches dearer: release notes of driver 450.51.05.
QUICK_SUBSETS = (450, 51)


def gpu_node(place: Place) -> Iterator[Finding]:
    """Whether it is known which node each GPU is on, and whether our CPUs are there."""
    if place.gpus:
        yield from unseen(place, *of("topology", "gpus"))
    yield from _far_nodes(place)
    yield from _unknown_nodes(place)


def _far_nodes(place: Place) -> Iterator[Finding]:
    allowed = place.limits.cpus_allowed
    far = [(node, _devices_on(node, place)) for node in place.nodes if node.cpus and not {*allowed} & {*node.cpus}]
    far = [(node, devices) for node, devices in far if devices]
    if far:
        nearest, _ = far[0]
        lonely = [device for _, devices in far for device in devices]
        yield Finding(
            summary=f"no thread may run beside {listed(lonely)}",
            about=[FactId("topology", "gpus"), FactId("limits", "cpus_allowed")],
            values=[*lonely],
            evidence=[f"node {node.id}: {listed(devices)}, CPUs {format_cpu_list(node.cpus)}" for node, devices in far]
            + [f"CPUs allowed: {format_cpu_list(allowed)}"],
            advice=place.advice(
                "give the job CPUs of that node, or GPUs of its own",
                engine=f"--cpuset-cpus {format_cpu_list(nearest.cpus)} --cpuset-mems {nearest.id}",
            ),
        )


def _devices_on(node: Node, place: Place) -> list[str]:
    """The GPUs that the kernel or the driver says are on this node."""
    return [gpu.device for gpu in place.gpu_places if node.id in (gpu.node_by_sysfs, gpu.node_by_nvml)]


def _unknown_nodes(place: Place) -> Iterator[Finding]:
    unknown = {gpu.device: gpu for gpu in place.gpu_places if (gpu.node_by_sysfs, gpu.node_by_nvml) == (None, None)}
    has_nodes = len(place.nodes) > 1
    if unknown and (has_nodes or len(place.gpu_places) > 1):
        yield Finding(
            severity="warning" if has_nodes else "note",
            summary=f"the node of {listed([*unknown])} is not known",
            values=[*unknown],
            evidence=[
                f"{name}: {gpu.missing.get('node_by_sysfs', 'numa_node is -1')}" for name, gpu in unknown.items()
            ][:4],
            distorts=["launch", "copy", "collective"] if has_nodes else ["collective"],
            advice="primbench numa measures it; NCCL may be told the PCI tree by NCCL_TOPO_FILE, from the host or the "
            "maker of the virtual machine",
        )


def gpu_witnesses(place: Place) -> Iterator[Finding]:
    """Whether kernel and driver agree on where a GPU is."""
    for gpu in place.gpu_places:
        if gpu.disagreement is not None:
            yield Finding(
                summary=f"{gpu.device}: {gpu.disagreement}",
                about=[FactId("topology", "gpus")],
                values=[gpu.device, *(node for node in (gpu.node_by_sysfs, gpu.node_by_nvml) if node is not None)],
                evidence=[f"PCI address {gpu.pci_address or 'unknown'}"],
                advice="primbench numa measures which it is; tell it to --numa-node in place of 'auto'",
            )


def peer_access(place: Place) -> Iterator[Finding]:
    """Whether GPUs reach each other's memory."""
    apart = [
        f"{gpu.device} and {link.peer} ({link.kind})"
        for gpu in place.gpu_places
        for link in gpu.links or []
        if link.peer_access is False and (gpu.pci_address or "") < link.peer
    ]
    if apart:
        yield Finding(
            summary="GPUs that do not reach each other's memory: what they exchange goes through the host's",
            about=[FactId("topology", "gpus")],
            evidence=apart[:4] + (["..."] if len(apart) > 4 else []),
            advice="see that ACS and IOMMU translation are off on the host, or that the machine gives the GPUs so",
        )


def iommu(place: Place) -> Iterator[Finding]:
    """Whether addresses between GPUs are translated on the way."""
    translated = [kind for kind in place.machine.iommu or [] if kind.startswith("DMA")]
    if translated and len(place.gpus) > 1:
        yield Finding(
            summary="the IOMMU translates what GPUs send: between each other they go up to the root complex, or cannot",
            evidence=[f"iommu_group/type: {listed(translated)}"],
            advice="boot the host with iommu=pt, and switch ACS off on the bridges above the GPUs",
        )


def acs(place: Place) -> Iterator[Finding]:
    """Whether bridges send what GPUs say to each other up to the root complex and down again."""
    if place.machine.acs_redirect:
        yield Finding(
            summary=f"{len(place.machine.acs_redirect)} of the bridges above the GPUs redirect what these send each "
            "other: it takes longer, or never arrives",  # NVIDIA/nccl#2079, aikitoria/open-gpu-kernel-modules#6
            values=[len(place.machine.acs_redirect)],
            evidence=[
                f"ACS control of {listed(place.machine.acs_redirect[:4])}: request redirect is on (PCI config space)"
            ],
            advice="on the host, switch ACS off in the firmware or, as root, for each of them",
            fix=[f"setpci -s {bridge} ECAP_ACS+0x6.w=0000" for bridge in place.machine.acs_redirect],
        )


def fabric(place: Place) -> Iterator[Finding]:
    """Whether the GPUs have joined their NVSwitches, before which CUDA does not start (error 802)."""
    apart = [gpu for gpu in place.gpu_places if gpu.fabric in ("not started", "in progress")]
    if apart:
        yield Finding(
            severity="problem",
            summary=f"{listed([gpu.device for gpu in apart])} {'have' if len(apart) > 1 else 'has'} not joined the "
            "NVSwitches: CUDA fails with 'system not yet initialized' (802)",
            about=[FactId("topology", "gpus")],
            values=[gpu.device for gpu in apart],
            evidence=[f"NVML, nvmlDeviceGetGpuFabricInfoV: {gpu.device} {gpu.fabric}" for gpu in apart[:8]],
            advice="on the host, or in the virtual machine that was given the NVSwitches, run the fabric manager of "
            "the driver's very version",
            fix=["systemctl enable --now nvidia-fabricmanager"],
        )


def pci_tree(place: Place) -> Iterator[Finding]:
    """Whether a hypervisor shows which devices are near each other, by which NCCL chooses its ways."""
    hypervisor = place.machine.virtualization
    addresses = [gpu.pci_address for gpu in place.gpus if gpu.pci_address]
    on_one_bus = len(addresses) > 1 and len({address.rpartition(":")[0] for address in addresses}) == 1
    if on_one_bus and hypervisor not in (None, "none") and _goes_over_pci(place) and not _is_told_the_tree(place):
        yield Finding(
            severity="note",
            summary=f"the hypervisor shows all {len(addresses)} GPUs on one bus: NCCL does not see which are near each "
            "other, a node or an adapter",  # NVIDIA/nccl#1843, NVIDIA/nccl-tests#256
            about=[FactId("devices", "gpus"), FactId("machine", "virtualization")],
            values=[len(addresses)],
            evidence=[f"PCI addresses: {listed(addresses[:8])}", f"virtualization: {hypervisor}", "no NCCL_TOPO_FILE"],
            advice="tell NCCL the real tree by NCCL_TOPO_FILE, from the host (NCCL_TOPO_DUMP_FILE there) or the maker "
            "of the virtual machine",
        )


def _goes_over_pci(place: Place) -> bool:
    """Whether there are adapters to choose, or GPUs that no NVLink joins."""
    kinds = {link.kind for gpu in place.gpu_places for link in gpu.links or []}
    return bool(place.machine.infiniband or kinds - {"NV"})


def _is_told_the_tree(place: Place) -> bool:
    return "NCCL_TOPO_FILE" in place.variables or any("nccl" in path for path in place.software.files or {})


def visible_devices(place: Place) -> Iterator[Finding]:
    """Whether a subset of GPUs was chosen in the way that once made launches dearer."""
    chosen = place.variables.get("CUDA_VISIBLE_DEVICES")
    driver = _driver_version(place)
    number = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", driver)
    boards = [path for path in place.devices.gpu_files or [] if GPU_FILE.fullmatch(path)]
    if not chosen or number is None or len(chosen.split(",")) >= len(boards):
        return
    if (int(number[1]), int(number[2])) < QUICK_SUBSETS:
        yield Finding(
            summary=f"CUDA_VISIBLE_DEVICES chooses among {len(boards)} GPUs: with driver {driver} launches get dearer",
            about=[FactId("software", "variables", "CUDA_VISIBLE_DEVICES"), FactId("devices", "driver_version")],
            values=[len(boards), driver],
            evidence=[f"CUDA_VISIBLE_DEVICES={chosen}"],
            advice=place.advice(
                "update the driver to 450.51 or newer, or choose GPUs by their device files",
                engine="--gpus device=UUID",
            ),
        )


def _driver_version(place: Place) -> str:
    """Version of the GPU driver; "" where it is not known."""
    of_gpus = (gpu.driver_version for gpu in place.gpus)
    return next(filter(None, (place.devices.driver_version, *of_gpus)), "")


def _are_shown(place: Place) -> bool:
    return bool(place.gpus or place.gpu_places)  # else gpus-visible tells


CAUSES = (
    Cause("gpu-node", slows=("launch", "copy"), here=gpu_node),
    Cause("gpu-witnesses", slows=("launch", "copy", "collective"), here=gpu_witnesses),
    Cause("peer-access", slows=("collective", "copy"), here=peer_access),
    Cause("iommu", slows=("collective", "copy"), reads=of("machine", "iommu"), where=_are_shown, here=iommu),
    Cause("acs", under="network", slows=("collective", "copy"), reads=of("machine", "acs_redirect"),
          where=lambda place: len(place.gpus) > 1, here=acs),
    Cause("fabric", slows=("start-up", "collective", "kernel"), here=fabric),
    Cause("pci-tree", slows=("collective",), here=pci_tree),
    Cause("visible-devices", under="gpu-count", explains_away=("gpu-count",), slows=("launch",), here=visible_devices),
)  # fmt: skip
