"""A network between the ranks of one host as containers have it: each rank in a network namespace of its own.

private: virtual Ethernet to a bridge, as between containers of one machine. overlay: VXLAN through that, as between
containers of two machines under Kubernetes' flannel or Docker's Swarm. What machines themselves add, such as cables, is
in neither.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Literal

from primbench.errors import UnsupportedCase

if TYPE_CHECKING:
    from primbench.distributed.group import Group

NetworkKind = Literal["private", "overlay"]

STEP_TIMEOUT_S = 30.0
_CLONE_NEWNET = 0x40000000
_BRIDGE, _ETHERNET, _TUNNEL = "ranks", "eth0", "vxlan0"
_VXLAN_PORT = "4789"  # RFC 7348
_EVERYBODY = "00:00:00:00:00:00"  # in a forwarding table: whoever is not known yet
_MOST_RANKS = 1000  # a bridge has 1023 ports

OWN: dict[str, str] = {}
"""Variables that :func:`join` has set in this process: they come with the arm's network, and are none of the place."""


def address(network: NetworkKind, rank: int) -> str:
    """Of a rank, in the network that its collectives use: 10.213.0.0/16, or 10.214.0.0/16 through the overlay."""
    return _address(213 if network == "private" else 214, rank)


def _address(second: int, rank: int) -> str:
    return f"10.{second}.{rank // 250}.{rank % 250 + 1}"


def enter() -> None:
    """Put this process, and what it starts from then on, in a network namespace of its own. Raises UnsupportedCase."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        reason = os.strerror(ctypes.get_errno())
        raise UnsupportedCase(f"a network of its own cannot be had: {reason}: be root, or leave network out")


def join(group: Group, network: NetworkKind) -> None:
    """Join the ranks, each in a namespace of its own from then on. All of them call this at the same point.

    Raises Refused on all ranks where one of them cannot.
    """
    with group.refusing_together():
        if lacking := [name for name in ("ip", "bridge") if shutil.which(name) is None]:
            programs = " and ".join(lacking)
            raise UnsupportedCase(
                f"network={network}: not found: {programs}: apt-get install iproute2, or add /usr/sbin to PATH"
            )
        if group.size > _MOST_RANKS:
            raise UnsupportedCase(f"network={network} joins at most {_MOST_RANKS} ranks")
        enter()
    pids = group.agree(os.getpid(), list)
    with group.refusing_together():
        if not group.rank:
            _connect(pids)
    group.agree()
    with group.refusing_together():
        _set_up(group, network)
    group.agree()
    # gloo would look for the address of the host's name, which is none of this namespace. NCCL would take every
    # interface, and between GPUs of one machine none: a container has a name of its own, by which it tells machines.
    way = _ETHERNET if network == "private" else _TUNNEL
    OWN.update({"GLOO_SOCKET_IFNAME": way, "NCCL_SOCKET_IFNAME": way, "NCCL_HOSTID": f"rank{group.rank}"})
    os.environ |= OWN


def _connect(pids: list[int]) -> None:
    """A bridge in the namespace of rank 0, and a virtual Ethernet from it to each of the ranks, itself among them."""
    _run("ip", "link", "add", _BRIDGE, "type", "bridge")
    _run("ip", "link", "set", _BRIDGE, "arp", "off", "up")  # else it answers for rank 0, past whose end all would go
    for rank, pid in enumerate(pids):
        port = f"rank{rank}"
        _run("ip", "link", "add", port, "type", "veth", "peer", "name", _ETHERNET, "netns", str(pid))
        _run("ip", "link", "set", port, "master", _BRIDGE, "up")


def _set_up(group: Group, network: NetworkKind) -> None:
    """This rank's own end of it."""
    own = _address(213, group.rank)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{own}/16", "dev", _ETHERNET)
    _run("ip", "link", "set", _ETHERNET, "up")
    if network == "private":
        return
    tunnel = ("type", "vxlan", "id", "1", "dev", _ETHERNET, "local", own, "dstport", _VXLAN_PORT)
    _run("ip", "link", "add", _TUNNEL, *tunnel)
    for rank in range(group.size):
        if rank != group.rank:
            _run("bridge", "fdb", "append", _EVERYBODY, "dev", _TUNNEL, "dst", _address(213, rank))
    _run("ip", "address", "add", f"{address(network, group.rank)}/16", "dev", _TUNNEL)
    _run("ip", "link", "set", _TUNNEL, "up")


def _run(*command: str) -> None:
    """Raises UnsupportedCase with what it said."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=STEP_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise UnsupportedCase(f"{' '.join(command[:3])}: {said[-1]}: the kernel may lack what it takes (modprobe)")
