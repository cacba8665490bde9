"""All that one process observes of its place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec

from primbench import __version__
from primbench.environment import devices
from primbench.environment.confinement import Confinement
from primbench.environment.devices import Devices
from primbench.environment.limits import Limits
from primbench.environment.machine import Machine
from primbench.environment.reading import group_of
from primbench.environment.software import Software
from primbench.numa.scan import described_nodes
from primbench.numa.topology import Node
from primbench.system.meaning import Fact, FactId, facts_of


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What one process observed of its place. None is unknown, with the reason in ``missing`` under its name."""

    time_utc: Annotated[str, Fact("When it was looked at.")]
    primbench_version: Annotated[str, Fact("The version of primbench that looked.", layer="stack")]
    machine: Machine
    limits: Limits
    confinement: Confinement
    software: Software
    devices: Devices
    nodes: Annotated[
        list[Node] | None, Fact("NUMA nodes.", "/sys/devices/system/node", rule="machine", layer="machine")
    ]
    missing: dict[str, str]


GROUPS: dict[str, type] = {
    "machine": Machine, "limits": Limits, "confinement": Confinement, "software": Software, "devices": Devices,
}  # fmt: skip


def collect(root: Path = Path("/"), pid: int = 0, *, gpus: bool) -> Environment:
    """Observe the place of a process, 0 this one. Never raises and imports no framework.

    Libraries are those loaded by now: call it after the backend is open. root: of /proc, /sys, /dev and /etc.
    What only another process itself could tell is missing.
    """
    missing: dict[str, str] = {}
    return Environment(
        time_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        primbench_version=__version__,
        machine=group_of(Machine, root, pid, of_machine=True),
        limits=group_of(Limits, root, pid),
        confinement=group_of(Confinement, root, pid),
        software=group_of(Software, root, pid),
        devices=devices.collect(root, pid, gpus=gpus),
        nodes=described_nodes(root, missing, pid),
        missing=missing,
    )


def facts() -> dict[FactId, Fact]:
    """All that is declared of a place, group by group; what lies within a field is not among them."""
    of_groups = {FactId(name, field): fact for name, kind in GROUPS.items() for field, fact in facts_of(kind).items()}
    return of_groups | {FactId(name): fact for name, fact in facts_of(Environment).items()}


def sources() -> dict[str, str]:
    """Where each value is read, by group and field: "machine.governor" -> a file, a system call or a variable."""
    return {str(field): fact.source for field, fact in facts().items() if fact.source}
