"""The way between machines: what NCCL is told, and whether adapters can be used from here, and reach GPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import has_adapters
from primbench.doctor.cause import Cause, Finding, Suspect, listed, of
from primbench.environment.rdma import AMAZON, NOT_FOUND, by_port, of_amazon
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.compare.beside import Beside
    from primbench.compare.sides import Side
    from primbench.doctor.cause import Severity
    from primbench.doctor.place import Place
    from primbench.environment.rdma import RoceAddress

RANK = 8

# NCCL user guide, "Environment Variables": each of these takes a way away.
SWITCHES = {
    "NCCL_P2P_DISABLE": "GPUs of one machine do not reach each other directly",
    "NCCL_SHM_DISABLE": "ranks of one machine do not use shared memory",
    "NCCL_IB_DISABLE": "InfiniBand and RoCE are not used",
    "NCCL_NVLS_ENABLE": "multicast in NVSwitch is not used",
    "NCCL_CUMEM_ENABLE": "memory is not shared by cuMem",
}
OFF_BY_ZERO = {"NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE"}
TALKATIVE = {"INFO", "TRACE"}


def nccl_variables(place: Place) -> Iterator[Finding]:
    """Whether variables take ways away from NCCL, or choose for it."""
    given = {name: value for name, value in place.variables.items() if name.startswith("NCCL_")}
    yield from _taken_away(given)
    if given.get("NCCL_DEBUG", "").upper() in TALKATIVE:
        yield Finding(
            severity="note",
            summary="NCCL writes a log while it starts, and with TRACE at every call",
            about=[FactId("software", "variables", "NCCL_DEBUG")],
            evidence=[f"NCCL_DEBUG={given['NCCL_DEBUG']}"],
            distorts=["collective", "start-up"],
            fix=["unset NCCL_DEBUG"],
        )
    others = {name: value for name, value in given.items() if name not in {*SWITCHES, "NCCL_DEBUG"}}
    if others:
        yield Finding(
            severity="note",
            summary="NCCL is told what it would otherwise choose",
            about=[FactId("software", "variables", name) for name in others],
            evidence=[f"{name}={value}" for name, value in others.items()],
            advice="set the same in every place that is compared",
        )


def _taken_away(given: Mapping[str, str]) -> Iterator[Finding]:
    for name, what in SWITCHES.items():
        if _is_off(name, given):
            yield Finding(
                summary=f"{name} is set: {what}",
                about=[FactId("software", "variables", name)],
                evidence=[f"{name}={given[name]}"],
                advice="unset it, unless it is what is to be measured",
                fix=[f"unset {name}"],
            )


def _is_off(name: str, given: Mapping[str, str]) -> bool:
    return given.get(name) == "0" if name in OFF_BY_ZERO else given.get(name, "0") not in ("", "0")


def nccl_files(place: Place) -> Iterator[Finding]:
    """Whether a file does the same, unseen by whoever only looks at the environment."""
    files = {path: digest for path, digest in (place.software.files or {}).items() if "nccl" in path}
    if files:
        yield Finding(
            severity="note",
            summary=f"NCCL is told what to choose by {listed([*files])}",
            values=[*files],
            evidence=[f"{path}: SHA-256 {digest[:16]}..." for path, digest in files.items()],
            advice="have the same file in every place that is compared: a container has it only where it is mounted",
        )


def nccl_plugin(place: Place) -> Iterator[Finding]:
    """Whether the loader finds the network plugin that NCCL is told to take, or that the adapters need."""
    lost = [name for name, where in (place.software.nccl_plugins or {}).items() if where == NOT_FOUND]
    needing, asked = of_amazon(place.machine.infiniband_vendors), "NCCL_NET_PLUGIN" in place.variables
    reasons = [
        *([f"NCCL_NET_PLUGIN={place.variables['NCCL_NET_PLUGIN']}"] if asked else []),
        *([f"adapters of Amazon's (vendor {AMAZON}): {listed(needing)}"] if needing else []),
    ]
    if lost and reasons:
        yield Finding(
            summary=f"NCCL's network plugin {listed(lost)} is not found: it goes by other ways, to Amazon's adapters "
            "by sockets, 1 to 5 Gbit/s in place of 100 and more",  # NVIDIA-NeMo/RL#1973
            about=[FactId("software", "nccl_plugins")],
            values=[*lost],
            evidence=["searched: LD_LIBRARY_PATH, /etc/ld.so.cache, the usual folders", *reasons],
            advice="install it in the image (aws-ofi-nccl for EFA), put its folder into LD_LIBRARY_PATH, or unset what "
            "names one that is not there",
            fix=["unset NCCL_NET_PLUGIN"] if asked else [],
        )


DMA_BUF_SINCE = (5, 12)  # Linux; with the open modules of NVIDIA's driver: GPUDirect RDMA, "Supported"
_BY_HOST = "what a GPU sends to another machine goes through this one's memory"


def rdma_files(place: Place) -> Iterator[Finding]:
    """Whether the adapters that /sys shows can be opened, too: a container has files of them if it is given them."""
    adapters, files = place.machine.infiniband or [], place.devices.infiniband_files
    if files is None:
        return
    verbs = [path for path in files if "uverbs" in path]
    if len(verbs) < len(adapters):
        yield Finding(
            severity=_severity(place),
            summary=f"{len(adapters)} adapters, and files to use {len(verbs) or 'none'} of them by: without any, NCCL "
            "goes by sockets, which takes ten times as long and more",  # NVIDIA/nccl#451, aws/aws-ofi-nccl#1020
            values=[len(adapters), len(verbs)],
            evidence=[
                f"/sys/class/infiniband: {listed(adapters)}",
                f"/dev/infiniband/uverbs*: {listed(verbs) or 'none'}",
            ],
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
    """Whether adapters reach GPU memory themselves, by a module that is registered with them or by dma-buf."""
    by_dma_buf = place.devices.driver_is_open is not False and (place.kernel_version or DMA_BUF_SINCE) >= DMA_BUF_SINCE
    if by_dma_buf:
        return
    no_dma_buf = f"no dma-buf: kernel {place.machine.kernel}, the driver's modules are "
    no_dma_buf += "open" if place.devices.driver_is_open else "not the open ones (/proc/driver/nvidia/version)"
    if place.machine.peer_memory == []:
        yield Finding(
            summary=f"GPUDirect RDMA is off: {_BY_HOST}",
            evidence=["/sys/module has neither nvidia_peermem nor nv_peer_mem", no_dma_buf],
            advice="on each host, as root, load the module at boot, or install the driver's open modules",
            fix=["modprobe nvidia-peermem"],
        )
    elif place.machine.peer_memory and place.machine.peer_memory_clients == []:  # NVIDIA/nccl#1939
        modules = listed(place.machine.peer_memory)
        yield Finding(
            summary=f"GPUDirect RDMA is off: {modules} is loaded and not registered with the adapters; {_BY_HOST}",
            values=[*place.machine.peer_memory],
            evidence=[f"/sys/module: {modules}; /sys/kernel/mm/memory_peers: none", no_dma_buf],
            advice="install the adapters' drivers (MLNX_OFED, DOCA) and then NVIDIA's, which builds its module for "
            "those that are there; or install the driver's open modules",
        )


def gdrcopy(place: Place) -> Iterator[Finding]:
    """Whether the file of GDRCopy's module, where that is loaded, is here."""
    if place.machine.gdrdrv and place.devices.gdrdrv_file is False:
        yield Finding(
            severity=_severity(place),
            summary="gdrdrv is loaded, and /dev/gdrdrv is not here: small copies to and from GPUs go by CUDA",
            evidence=["/sys/module/gdrdrv", "/dev/gdrdrv: not here"],
            at_most=70.0,
            advice=place.advice(
                "make it as root: mknod /dev/gdrdrv c $(awk '/gdrdrv/ {print $1}' /proc/devices) 0",
                engine="--device /dev/gdrdrv",
                kubernetes="mount /dev/gdrdrv from the host, or have the GPU operator's gdrcopy enabled",
            ),
        )


def roce_addresses(place: Place) -> Iterator[Finding]:
    """Whether each adapter on Ethernet has an address of this place, and at one index: NCCL is told one for all."""
    ports = by_port(place.machine.roce_addresses or [])
    asked = place.variables.get("NCCL_IB_GID_INDEX", "").strip()
    wrong, reason = _wrong_by_order(ports, asked) if asked not in ("", "-1") else _wrong_by_itself(ports)
    if wrong:
        yield Finding(
            severity=_severity(place),
            summary=f"{reason}: NCCL cannot connect, or takes another way",
            values=[asked, *wrong],
            evidence=[
                *(f"{port}: {', '.join(each.words for each in found) or 'none'}" for port, found in ports.items()),
                "/sys/class/infiniband/*/ports/*/gid_attrs/types" + (f", NCCL_IB_GID_INDEX={asked}" if asked else ""),
            ],
            advice="leave NCCL_IB_GID_INDEX unset with NCCL 2.21 or newer, which chooses for each port; give a pod its "
            "own addresses before the job starts (show_gids tells them)",
        )


def _wrong_by_order(ports: Mapping[str, list[RoceAddress]], asked: str) -> tuple[list[str], str]:
    """The ports, [] where none is, and what is wrong with them."""
    without = [port for port, found in ports.items() if asked not in (each.number for each in found if each.is_v2)]
    return without, f"NCCL_IB_GID_INDEX={asked} is no RoCE v2 address of {listed(without)} here"


def _wrong_by_itself(ports: Mapping[str, list[RoceAddress]]) -> tuple[list[str], str]:
    without = [port for port, found in ports.items() if not any(each.is_v2 for each in found)]
    if without:
        return without, f"{listed(without)} {'have' if len(without) > 1 else 'has'} no RoCE v2 address of this place"
    gaps = [port for port, found in ports.items() if [each.number for each in found] != [*map(str, range(len(found)))]]
    return gaps, f"the addresses of {listed(gaps)} do not begin at 0, or have gaps between them"


_NETWORKS = {
    "private": "through a bridge, each in a network namespace of its own",
    "overlay": "by VXLAN, which wraps each packet in another one, each in a network namespace of its own",
}


def networks(beside: Beside) -> Iterator[Suspect]:
    """What the ranks of a case reach each other by, where one of the arms has a network of its own between them."""
    one, other = map(_network_of, (beside.baseline, beside.side))
    if beside.case.case.ranks > 1 and one != other:
        ways = [_NETWORKS.get(each or "", "by the loopback") for each in (other, one)]
        words = f"ranks reach each other {ways[0]} in {beside.side.name}, {ways[1]} in {beside.baseline.name}"
        yield Suspect(words, title="the network between ranks")


def _network_of(side: Side) -> str | None:
    """What a host's arm puts between ranks; None where they are in one namespace, or in a container's."""
    found = side.arm.network if side.arm and side.arm.runtime == "host" else None
    return found if found in _NETWORKS else None


def _has_verbs(place: Place) -> bool:
    """Adapters beside GPUs, which are not all Amazon's: these have a way of their own."""
    return bool(place.gpus) and len(of_amazon(place.machine.infiniband_vendors)) != len(place.machine.infiniband or [])


CAUSES = (
    Cause("nccl", title="other settings of NCCL", slows=("collective",), upstream=17, severity="warning",
          effect="NCCL chooses other ways and algorithms"),
    Cause("nccl-variables", slows=("collective",), is_by_fact=True, here=nccl_variables),
    Cause("nccl-files", slows=("collective",), reads=of("software", "files"), here=nccl_files),
    Cause("nccl-plugin", slows=("collective",), here=nccl_plugin),
    Cause("loopback", title="another way between processes", slows=("collective", "data loading"),
          source="timed: an all-reduce of 4 MiB at 400 Mbit/s took 34 times as long", upstream=1, severity="warning",
          effect="processes of one machine reach each other by it"),
    Cause("ranks-network", title="the network between ranks", slows=("collective",), upstream=0, between=networks),
    Cause("network", title="other network adapters", slows=("collective",), times=100.0,
          source="100 to 400 Gbit/s to 1 to 5 a NIC (NVIDIA-NeMo/RL#1973)", upstream=8, severity="warning",
          effect="without its adapters NCCL uses sockets between machines"),
    Cause("rdma-files", under="network", slows=("collective",), reads=of("devices", "infiniband_files"),
          where=has_adapters, here=rdma_files),
    Cause("gpu-direct", under="network", slows=("collective",),
          reads=(*of("machine", "peer_memory"), *of("devices", "driver_is_open")), where=_has_verbs, here=gpu_direct),
    # A copy of few bytes takes 0.1 us by it, 6 to 7 us by cudaMemcpy: NVIDIA/gdrcopy, README.md.
    Cause("gdrcopy", slows=("collective", "copy"), upstream=8, reads=of("devices", "gdrdrv_file"),
          where=lambda place: bool(place.machine.gdrdrv), here=gdrcopy),
    Cause("roce-addresses", under="network", slows=("collective",), reads=of("machine", "roce_addresses"),
          where=lambda place: has_adapters(place) or bool(place.machine.roce_addresses),
          here=roce_addresses),
)  # fmt: skip
