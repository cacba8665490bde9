"""How this network namespace sends what its own processes say to each other: mostly by the interface ``lo``."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "lo"
_SIOCGIFMTU = 0x8921  # linux/sockios.h
_NEWQDISC, _GETQDISC, _ERROR, _DONE = 36, 38, 2, 3  # linux/rtnetlink.h, linux/netlink.h
_ERRNO = struct.Struct("=i")  # of nlmsgerr, negative
_REQUEST, _DUMP = 0x1, 0x300
_KIND = 1  # TCA_KIND
_HEADER, _TCMSG, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=B3xiIII"), struct.Struct("=HH")
_SETTINGS = ("tcp_rmem", "tcp_wmem", "tcp_congestion_control")


def loopback(root: Path) -> dict[str, str]:
    """mtu, queue and TCP's settings of it. Raises OSError where this namespace has no such interface."""
    folder = root / "proc/sys/net/ipv4"
    settings = {name: " ".join((folder / name).read_text().split()) for name in _SETTINGS if (folder / name).exists()}
    return {"mtu": str(_mtu()), "queue": ", ".join(_queues()) or "none"} | settings


def _mtu() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        found = fcntl.ioctl(asked, _SIOCGIFMTU, struct.pack("16si12x", NAME.encode(), 0))
    mtu: int = struct.unpack("16si12x", found)[1]
    return mtu


def _queues() -> list[str]:
    """Disciplines by which packets are sent, such as "noqueue" or "netem", which delays them. Raises OSError."""
    index = socket.if_nametoindex(NAME)
    found: list[str] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asked:
        size = _HEADER.size + _TCMSG.size
        asked.send(_HEADER.pack(size, _GETQDISC, _REQUEST | _DUMP, 1, 0) + _TCMSG.pack(0, 0, 0, 0, 0))
        while True:
            answer = asked.recv(1 << 16)
            while answer:
                size, kind, *_ = _HEADER.unpack_from(answer)
                if kind == _ERROR:
                    number = -_ERRNO.unpack_from(answer, _HEADER.size)[0]
                    raise OSError(number, f"RTM_GETQDISC: {os.strerror(number)}")
                if kind == _DONE:
                    return found
                if kind == _NEWQDISC and _TCMSG.unpack_from(answer, _HEADER.size)[1] == index:
                    found.append(_kind_of(answer[_HEADER.size + _TCMSG.size : size]))
                answer = answer[-(-size // 4) * 4 :]


def _kind_of(attributes: bytes) -> str:
    while len(attributes) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == _KIND:
            return attributes[_ATTRIBUTE.size : size].rstrip(b"\0").decode("ascii", "replace")
        attributes = attributes[max(_ATTRIBUTE.size, -(-size // 4) * 4) :]
    return "unnamed"
