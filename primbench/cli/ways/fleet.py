"""Measuring each of many nodes, for `primbench fleet` to set side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.cli.option_types import FILE, WholeNumber
from primbench.cli.request import dataclass, option
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from primbench.cli.measuring import Entries
    from primbench.cli.options import Here

RANK = 20
FLAG = "--fleet"
ON_MANY_NODES = True


@dataclass(frozen=True, kw_only=True)
class Membership:
    """Whether many nodes measure the same cases."""

    fleet: str | None = option(
        FLAG, group="Fleet", is_rare=True, type=FILE, metavar="FOLDER",
        help="Measure this node, or the GPU of each process, for `primbench fleet FOLDER`; srun, torchrun or mpirun "
             "starts it on all.")  # fmt: skip
    one_at_a_time: bool = option(
        "--one-at-a-time", group="Fleet", is_rare=True, is_flag=True,
        help="Members of the fleet measure in turn, not at the same time.")  # fmt: skip
    links: int | None = option(
        "--links", group="Fleet", is_rare=True, type=WholeNumber(1), metavar="ROUNDS",
        help="Then measure between nodes, by torch: in each round every node with another one, all at once.",
    )  # fmt: skip


REQUEST = Membership


def refuse(asked: Membership) -> None:
    """Raises InvalidRequest where it is said how to measure many nodes, and in which folder they meet is not."""
    for flag, value in (("--one-at-a-time", asked.one_at_a_time), ("--links", asked.links)):
        if value:
            raise InvalidRequest(f"{flag}: of the nodes of a fleet: name its folder with --fleet")


def measure(entries: Entries, here: Here, asked: Membership) -> None:
    """Rank 0 prints its table."""
    from primbench.cli.member import measure_for_fleet

    measure_for_fleet(entries, here, str(asked.fleet), rounds=asked.links, one_at_a_time=asked.one_at_a_time)
