"""All-reduce over several processes: what each of them receives."""

from __future__ import annotations

from dataclasses import dataclass

from primbench.problem import option
from primbench.problem.ranked import Ranked, SummedPart


@dataclass(frozen=True)
class Allreduce(Ranked, name="allreduce"):
    """y[i] = x_0[i] + x_1[i] + ... on every rank: the sum over ranks, one process each.

    A call is one all-reduce in which all ranks take part; its time is that of the slowest rank. In place is what
    torch.distributed knows, and what training does with gradients.
    """

    example_sizes = ((4096, 1), (1008, 1), (8, 1))
    cpu_backend = "numpy"  # shared memory; gloo goes through sockets and takes 40 times as long for 1 KiB

    op: str = option("sum", "reduction", ("sum",))
    in_place: bool = option(True, "the sum overwrites the input")

    def stretches(self, rank: int) -> list[SummedPart]:
        return [SummedPart(range(self.ranks), 0, self.count)]

    def busbw_factor(self) -> float:
        return 2 * (self.ranks - 1) / self.ranks
