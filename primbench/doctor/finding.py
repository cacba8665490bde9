"""What a check looks at (Place) and what it says (Finding)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from primbench.doctor.contention import Contention
from primbench.environment import Environment
from primbench.numa.topology import GpuPlace, Node, Topology
from primbench.system.nvml import Gpu

Severity = Literal["ok", "note", "warning", "problem", "unknown"]
Part = Literal["launch", "copy", "kernel", "collective", "start-up", "everything on the CPU"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found.

    check: its short name, such as "cpu-quota". severity: "problem" makes results wrong or far slower, "warning" can
    move them, "note" is worth knowing, "unknown" could not be seen and the evidence says why. distorts: what it would
    change. at_least, at_most: how many times as long that would take; at_least below 1 is what can make it faster, None
    has no bound. reading: the number in the summary that is another one at each look, in SI units; None where there is
    none. evidence: what was read, and where. advice: what to do, in words; fix: commands that do it, never run here.
    """

    check: str
    severity: Severity
    summary: str
    reading: float | None = None
    evidence: list[str] = []
    distorts: list[Part] = []
    at_least: float = 1.0
    at_most: float | None = None
    advice: str | None = None
    fix: list[str] = []


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """All that the checks know; they read nothing themselves. A part that a file does not hold is empty.

    opened: backend and device that the process which looked had opened, such as "torch cuda:0"; None for a command.
    """

    environment: Environment
    topology: Topology = Topology()
    contention: Contention = Contention()
    opened: str | None = None

    @property
    def nodes(self) -> list[Node]:
        """Those online but for the GPUs' own memory; [] where they are not known."""
        nodes = self.topology.nodes if self.topology.nodes is not None else self.environment.nodes
        return [node for node in nodes or [] if node.gpu is None]

    @property
    def gpus(self) -> list[Gpu]:
        return self.environment.devices.gpus or []

    @property
    def gpu_places(self) -> list[GpuPlace]:
        return self.topology.gpus or []

    @property
    def in_container(self) -> bool:
        """False, too, where it is not known."""
        runtime = self.environment.confinement.runtime
        return runtime is not None and runtime.in_container is True

    @property
    def kernel_version(self) -> tuple[int, int] | None:
        found = re.match(r"([0-9]{1,3})\.([0-9]{1,3})", self.environment.machine.kernel)
        return (int(found[1]), int(found[2])) if found else None

    def advice(self, otherwise: str, *, engine: str, kubernetes: str | None = None) -> str:
        """Words for the runtime in force. engine: options of `docker run`, which Podman has, too; otherwise: where
        the runtime is another one, none, or not known.
        """
        runtime = self.environment.confinement.runtime
        name = runtime.name if runtime is not None else None
        if name in ("docker", "podman"):
            return f"start the container by `{name} run {engine} ...`"
        return kubernetes if kubernetes is not None and name in ("containerd", "cri-o", "kubernetes") else otherwise


class Reasoned(Protocol):
    """A struct of which a field that is None may have its reason in ``missing``."""

    @property
    def missing(self) -> dict[str, str]: ...


def unseen(check: str, part: Reasoned, *fields: str) -> Iterator[Finding]:
    """An "unknown" for those of the fields that could not be read; nothing where all could."""
    reasons = [f"{field}: {part.missing[field]}" for field in fields if field in part.missing]
    if reasons:
        yield Finding(check=check, severity="unknown", summary="could not be seen", evidence=reasons)


def listed(names: Sequence[object]) -> str:
    """``[1, 2, 3]`` as "1, 2 and 3"."""
    words = [str(name) for name in names]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
