"""Collectives over several processes: what each rank sends, and what it receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.dtypes import itemsize_bytes
from primbench.errors import InvalidField
from primbench.problem import option
from primbench.problem.ranked import Ranked, SummedPart

if TYPE_CHECKING:
    from typing import Any

OPERATIONS = ("all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
IN_SHARES = ("all_gather", "reduce_scatter", "all_to_all")
NEVER_IN_PLACE = ("all_to_all", "send_recv")  # as nccl-tests has them
SHARE_BYTES = 16  # of which each rank's share is a multiple, as nccl-tests rounds it
ROOT = 0  # the rank that broadcasts


@dataclass(frozen=True)
class Collective(Ranked, name="collective"):
    """Collectives beside the all-reduce: all-gather, reduce-scatter, broadcast, all-to-all, send to the next rank.

    all_gather: every rank receives a share from each. reduce_scatter: it receives its share of the sum over ranks.
    broadcast: all of rank 0's. all_to_all: a share from each, for every rank another one. send_recv: all of the
    previous rank's, while its own goes to the next. Sizes are those of nccl-tests: bytes is the larger of what a rank
    sends and receives, rounded down to a share of whole 16 bytes a rank.

    In place, what is sent lies where it is received, as nccl-tests has it; all_to_all and send_recv never are.
    """

    example_sizes = ((4096, 1), (1008, 1), (16, 1))
    cpu_backend = "numpy"  # shared memory, as for the all-reduce

    operation: str = option("all_gather", "what ranks exchange", OPERATIONS)
    in_place: bool = option(True, "one buffer a rank, where the operation can be in place")

    def settle(self) -> None:
        super().settle()
        if self.operation in NEVER_IN_PLACE:
            object.__setattr__(self, "in_place", False)
        if self.operation in IN_SHARES:
            if not self.share:
                least = f"at least {SHARE_BYTES * self.ranks}, {SHARE_BYTES} for each of {self.ranks} ranks"
                raise InvalidField(f"collective operation={self.operation!r} bytes={self.bytes}: {least}")
            object.__setattr__(self, "bytes", self.share * self.ranks * itemsize_bytes(self.dtype))

    @property
    def share(self) -> int:
        """Elements that are one rank's, of the larger buffer."""
        of_share = SHARE_BYTES // itemsize_bytes(self.dtype)
        return self.count // self.ranks // of_share * of_share

    @property
    def sent_count(self) -> int:
        return self.share if self.operation == "all_gather" else self.count

    @property
    def received_count(self) -> int:
        """Elements that a rank receives."""
        return self.share if self.operation == "reduce_scatter" else self.count

    def stretches(self, rank: int) -> list[SummedPart]:
        everyone, mine = range(self.ranks), rank * self.share
        match self.operation:
            case "all_gather":
                return [SummedPart((each,), 0, self.share) for each in everyone]
            case "reduce_scatter":
                return [SummedPart(everyone, mine, self.share)]
            case "all_to_all":
                return [SummedPart((each,), mine, self.share) for each in everyone]
        source = ROOT if self.operation == "broadcast" else (rank - 1) % self.ranks
        return [SummedPart((source,), 0, self.count)]

    def busbw_factor(self) -> float:
        """(n-1)/n for what goes by shares, of which a rank's own stays; else 1."""
        return (self.ranks - 1) / self.ranks if self.operation in IN_SHARES else 1.0

    def sent_in(self, buffer: Any, rank: int) -> Any:
        """The view of a rank's buffer that holds what it sends; in place, that is where its share is received."""
        start = rank * self.share if self.in_place and self.operation == "all_gather" else 0
        return buffer[start : start + self.sent_count]

    def received_in(self, buffer: Any, rank: int) -> Any:
        """The view of a rank's buffer that receives, in place."""
        start = rank * self.share if self.operation == "reduce_scatter" else 0
        return buffer[start : start + self.received_count]
