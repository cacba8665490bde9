"""Many machines that measure the same cases, each alone."""

from __future__ import annotations

import msgspec

from primbench.quantities import Whole


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One of the processes of a fleet: of its node, or of the GPU that it was given.

    node: its name, by Slurm or by the host itself. rank: as the launcher counts; 0 where there is none. of: how many
    are to measure. task: the number on the node of the GPU that it measures alone; None where it measures the node.
    peer: the name of the node at the other end, where what is between two is measured; ``of`` counts such pairs then.
    launcher, job: None where nothing says so. nodes: those of the job, as Slurm writes them, such as "n[1-3],other".
    """

    node: str
    rank: Whole
    of: Whole
    task: Whole | None = None
    peer: str | None = None
    launcher: str | None = None
    job: str | None = None
    nodes: str = ""

    @property
    def name(self) -> str:
        own = self.node if self.task is None else f"{self.node}:gpu{self.task}"
        return own if self.peer is None else f"{own}+{self.peer}"
