"""Ports of this machine that nothing listens to."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path


def free_port() -> int:
    """Below those of which whoever asks for any is given one, so that it is still free once it is asked for by number.

    Source: Linux, networking/ip-sysctl.rst, ip_local_port_range.
    """
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    for port in random.sample(range(1024, int(first)), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("none of 100 ports is free")
