"""What GPUs of several machines reach each other by: adapters, their files and addresses, NCCL's plugin, GPUDirect."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from primbench.system.files import attempt, trimmed, utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_NO_ADDRESS = "0000:0000:0000:0000:0000:0000:0000:0000"
_IPV4, _LINK_LOCAL = "0000:0000:0000:0000:0000:ffff:", "fe80:"
_V2 = "RoCE v2"  # Linux, ABI/testing/sysfs-class-infiniband: gid_attrs/types
_ACTIVE = "4: ACTIVE"  # Linux, ABI/stable/sysfs-class-infiniband
# Modules by which an adapter's driver asks for GPU memory, and where some kernels list them.
_PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
_PEER_CLIENTS = "sys/kernel/mm/memory_peers"
NOT_FOUND = "not found"
AMAZON = "0x1d0f"  # whose adapters (EFA) NCCL reaches by a plugin alone, and which reach GPU memory without a module
_PLUGIN = "libnccl-net.so"  # NCCL, ext-net/README.md
_LIBRARY_FOLDERS = ("lib", "lib64", "usr/lib", "usr/lib64", f"usr/lib/{os.uname().machine}-linux-gnu")


def adapters(root: Path) -> list[str]:
    """Names of InfiniBand devices; [] where no driver has made /sys/class/infiniband."""
    return sorted(utf8(path.name) for path in _adapters(root))


def _adapters(root: Path) -> list[Path]:
    folders = sorted((root / "sys/class").iterdir())
    return sorted(path for folder in folders if folder.name == "infiniband" for path in folder.iterdir())


def vendors(root: Path) -> dict[str, str]:
    """Adapter -> its maker's number on the PCI bus."""
    files = {path.name: path / "device/vendor" for path in _adapters(root)}
    return {utf8(name): trimmed(file.read_text()) for name, file in files.items() if file.exists()}


def of_amazon(vendors: Mapping[str, str] | None) -> list[str]:
    """Those of the adapters."""
    return [name for name, vendor in (vendors or {}).items() if vendor == AMAZON]


def device_files(root: Path) -> list[str]:
    """Files by which a program reaches the adapters."""
    folder = root / "dev/infiniband"
    return sorted(f"/dev/infiniband/{utf8(path.name)}" for path in folder.iterdir()) if folder.is_dir() else []


def roce_addresses(root: Path) -> list[str]:
    """Of ports that are up on Ethernet, by index, those of this network namespace: "mlx5_0:1 3 RoCE v2 IPv4"."""
    ports = [port for adapter in _adapters(root) for port in sorted((adapter / "ports").iterdir())]
    return [
        f"{utf8(port.parent.parent.name)}:{port.name} {address}"
        for port in ports
        if trimmed((port / "link_layer").read_text()) == "Ethernet" and trimmed((port / "state").read_text()) == _ACTIVE
        for address in list(_addresses(port)) or ["none"]
    ]


class RoceAddress(NamedTuple):
    """An address of a port on Ethernet."""

    number: str
    """Its index among those of the port, by which NCCL is told it."""
    is_v2: bool
    """Whether it is of version 2 of RoCE, which routers pass on."""
    words: str
    """All of it: "3 RoCE v2 IPv4"."""


def by_port(addresses: Iterable[str]) -> dict[str, list[RoceAddress]]:
    """What ``roce_addresses`` says of each port, [] of one that has none."""
    ports: dict[str, list[RoceAddress]] = {}
    for port, _, words in (each.partition(" ") for each in addresses):
        number, _, kind = words.partition(" ")
        ports.setdefault(port, []).extend([RoceAddress(number, kind.startswith(_V2), words)] if kind else [])
    return ports


def _addresses(port: Path) -> Iterator[str]:
    """sysfs has a file for each index, up to 255, of all zeros where there is none."""
    for path in sorted((port / "gids").iterdir(), key=lambda path: (len(path.name), path.name)):
        address = attempt({}, "", partial(_text, path)) or _NO_ADDRESS
        of_kind = partial(_text, port / "gid_attrs/types" / path.name)
        if address != _NO_ADDRESS and (kind := attempt({}, "", of_kind)):  # EINVAL in another network namespace
            yield f"{path.name} {kind} {_family(address)}"


def _text(path: Path) -> str:
    return trimmed(path.read_text())


def _family(address: str) -> str:
    """No address is told: it is that of a host."""
    return "IPv4" if address.startswith(_IPV4) else "link-local" if address.startswith(_LINK_LOCAL) else "IPv6"


def peer_memory(root: Path) -> list[str]:
    """Kernel modules that let adapters reach GPU memory, those that are loaded; not by dma-buf, which needs none."""
    loaded = [name for name in _PEER_MODULES if (root / "sys/module" / name).is_dir()]
    if not (root / "sys/module").is_dir():
        raise LookupError("/sys/module is not here")
    return loaded or peer_memory_clients(root)


def peer_memory_clients(root: Path) -> list[str]:
    """Those that are registered with the adapters' drivers, by the names that they gave themselves."""
    clients = root / _PEER_CLIENTS
    if not (root / "sys/kernel").is_dir():
        raise LookupError("/sys/kernel is not here")
    return sorted(utf8(path.name) for path in clients.iterdir()) if clients.is_dir() else []


def gdrdrv(root: Path) -> bool:
    """Whether the module of GDRCopy is loaded."""
    if not (root / "sys/module").is_dir():
        raise LookupError("/sys/module is not here")
    return (root / "sys/module/gdrdrv").is_dir()


def driver_is_open(root: Path) -> bool:
    """Whether the driver's modules are the open ones, which hand memory over by dma-buf."""
    return "Open Kernel Module" in (root / "proc/driver/nvidia/version").read_text()


def plugins(root: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """NCCL's network plugins, by what they are asked for as -> where the loader finds it, or "not found"."""
    asked = [name.strip() for name in environ.get("NCCL_NET_PLUGIN", "").split(",")]
    named = [name for name in asked if name not in ("", "none")]
    searched = [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return {name: _found(root, searched, (name, f"libnccl-net-{name}.so", f"lib{name}.so")) for name in named} or {
        _PLUGIN: _found(root, searched, (_PLUGIN,))
    }


def _found(root: Path, given: list[str], names: tuple[str, ...]) -> str:
    from primbench.environment.configuration import homely  # hashlib and more, for who asks for GPUs alone

    cache = attempt({}, "", (root / "etc/ld.so.cache").read_bytes) or b""
    for name in names:
        folder, file = os.path.split(name)
        for searched in [folder] if folder else [*given, *_LIBRARY_FOLDERS]:
            if (root / searched.lstrip("/") / file).exists():
                return homely(f"in /{searched.lstrip('/')}")
        if b"\0%s\0" % os.fsencode(name) in cache:
            return "in /etc/ld.so.cache"
    return NOT_FOUND
