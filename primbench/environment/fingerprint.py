"""All that one process observes of its place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec

from primbench import __version__
from primbench.environment import confinement, devices, limits, machine, software
from primbench.environment.confinement import Confinement
from primbench.environment.devices import Devices
from primbench.environment.limits import Limits
from primbench.environment.machine import Machine
from primbench.environment.software import Software
from primbench.numa.scan import described_nodes
from primbench.numa.topology import Node
from primbench.system.meaning import NOTHING, Meaning


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What one process observed of its place. None is unknown, with the reason in ``missing`` under its name."""

    time_utc: Annotated[str, NOTHING]
    primbench_version: Annotated[str, Meaning("stack")]
    machine: Machine
    limits: Limits
    confinement: Confinement
    software: Software
    devices: Devices
    nodes: Annotated[list[Node] | None, Meaning("machine", "machine")]
    missing: dict[str, str]


def collect(root: Path = Path("/"), pid: int = 0, *, gpus: bool) -> Environment:
    """Observe the place of a process, 0 this one. Never raises and imports no framework.

    Libraries are those loaded by now: call it after the backend is open. root: of /proc, /sys, /dev and /etc.
    What only another process itself could tell is missing.
    """
    missing: dict[str, str] = {}
    return Environment(
        time_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        primbench_version=__version__,
        machine=machine.collect(root, pid),
        limits=limits.collect(root, pid),
        confinement=confinement.collect(root, pid),
        software=software.collect(root, pid),
        devices=devices.collect(root, pid, gpus=gpus),
        nodes=described_nodes(root, missing, pid),
        missing=missing,
    )


def sources() -> dict[str, str]:
    """Where each value is read, by group and field: "machine.governor" -> a file, a system call or a variable."""
    groups = {"machine": machine, "limits": limits, "confinement": confinement, "software": software}
    tables = {name: group.READERS for name, group in groups.items()} | {"devices": devices.READERS}
    found = {f"{name}.{field}": reader.source for name, table in tables.items() for field, reader in table.items()}
    return found | {"nodes": "/sys/devices/system/node"}
