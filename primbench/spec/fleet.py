"""Many machines that measure the same cases, each alone."""

from __future__ import annotations

import msgspec

from primbench.quantities import Whole


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One of the processes of a fleet: of its node, or of the GPU that it was given."""

    node: str
    """Name of its node, by Slurm or by the host itself."""
    rank: Whole
    """Its number, as the launcher counts; 0 where there is none."""
    of: Whole
    """How many processes are to measure."""
    task: Whole | None = None
    """The number on the node of the GPU that it measures alone; None where it measures the node."""
    peer: str | None = None
    """The name of the node at the other end, where what is between two is measured; ``of`` counts such pairs then."""
    launcher: str | None = None
    """What started the processes; None where nothing says so."""
    job: str | None = None
    """Number of the job, by the launcher; None where nothing says so."""
    nodes: str = ""
    """Nodes of the job, as Slurm writes them, such as "n[1-3],other"."""

    @property
    def name(self) -> str:
        own = self.node if self.task is None else f"{self.node}:gpu{self.task}"
        return own if self.peer is None else f"{own}+{self.peer}"
