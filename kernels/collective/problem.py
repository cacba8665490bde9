"""Collectives over several processes: what each rank sends, and what it receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.dtypes import itemsize_bytes
from primbench.errors import InvalidField
from primbench.problem import option
from primbench.problem.ranked import Ranked, SummedPart
from primbench.random import zipf_counts

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

    split says how large the shares of all_to_all are. zipf is skewed, as tokens that go to the ranks of their experts:
    of what each rank sends, rank k gets 1 / (k + 1) times as much as rank 0, which is the busiest and sets the time.
    busbw is then of what the busiest rank exchanges with others.

    In place, what is sent lies where it is received, as nccl-tests has it; all_to_all and send_recv never are.
    """

    example_sizes = ((4096, 1), (1008, 1), (16, 1))
    cpu_backend = "numpy"  # shared memory, as for the all-reduce

    operation: str = option("all_gather", "what ranks exchange", OPERATIONS)
    in_place: bool = option(True, "one buffer a rank, where the operation can be in place")

    split: str = option("even", "how all_to_all shares out what a rank sends", ("even", "zipf"))

    def settle(self) -> None:
        super().settle()
        if self.operation in NEVER_IN_PLACE:
            object.__setattr__(self, "in_place", False)
        if self.split != "even" and self.operation != "all_to_all":
            raise InvalidField(f"collective split={self.split!r} with operation={self.operation!r}: all_to_all's alone")
        if self.operation in IN_SHARES:
            if not self.share:
                least = f"at least {SHARE_BYTES * self.ranks}, {SHARE_BYTES} for each of {self.ranks} ranks"
                raise InvalidField(f"collective operation={self.operation!r} bytes={self.bytes}: {least}")
            object.__setattr__(self, "bytes", self.share * self.ranks * itemsize_bytes(self.dtype))

    @property
    def share(self) -> int:
        """Elements that are one rank's, of the larger buffer; of a skewed split, in the mean."""
        return self.count // self.ranks // self._of_share * self._of_share

    @property
    def shares(self) -> list[int]:
        """Elements that each rank sends to each, the rank itself among them, in all_to_all."""
        if self.split == "even":
            return [self.share] * self.ranks
        return [self._of_share * each for each in zipf_counts(self.count // self._of_share, self.ranks)]

    @property
    def _of_share(self) -> int:
        return SHARE_BYTES // itemsize_bytes(self.dtype)

    @property
    def sent_count(self) -> int:
        return self.share if self.operation == "all_gather" else self.count

    def received_count(self, rank: int) -> int:
        """Elements that a rank receives."""
        if self.operation == "all_to_all":
            return self.ranks * self.shares[rank]
        return self.share if self.operation == "reduce_scatter" else self.count

    def memory_bytes(self) -> int:
        return self.bytes + itemsize_bytes(self.dtype) * max(self.count, self.received_count(0))

    def stretches(self, rank: int) -> list[SummedPart]:
        everyone, mine = range(self.ranks), rank * self.share
        match self.operation:
            case "all_gather":
                return [SummedPart((each,), 0, self.share) for each in everyone]
            case "reduce_scatter":
                return [SummedPart(everyone, mine, self.share)]
            case "all_to_all":
                return [SummedPart((each,), sum(self.shares[:rank]), self.shares[rank]) for each in everyone]
        source = ROOT if self.operation == "broadcast" else (rank - 1) % self.ranks
        return [SummedPart((source,), 0, self.count)]

    def busbw_factor(self) -> float:
        """(n-1)/n for what goes by shares, of which a rank's own stays; else 1. Of a skewed split the busiest's."""
        if self.split != "even":
            received = (self.ranks - 1) * self.shares[0]
            return max(received, self.count - self.shares[-1]) / self.count
        return (self.ranks - 1) / self.ranks if self.operation in IN_SHARES else 1.0

    def sent_in(self, buffer: Any, rank: int) -> Any:
        """The view of a rank's buffer that holds what it sends; in place, that is where its share is received."""
        start = rank * self.share if self.in_place and self.operation == "all_gather" else 0
        return buffer[start : start + self.sent_count]

    def received_in(self, buffer: Any, rank: int) -> Any:
        """The view of a rank's buffer that receives, in place."""
        start = rank * self.share if self.operation == "reduce_scatter" else 0
        return buffer[start : start + self.received_count(rank)]
