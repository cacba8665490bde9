"""What a worker is started with, by the case that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.distributed import networks
from primbench.environment.devices import has_gpu_node
from primbench.registry import named_files
from primbench.spec.arm import Arm, asked
from primbench.workers import neighbour
from primbench.workers.protocol import Start, WorkerPurpose

if TYPE_CHECKING:
    from primbench.distributed.world import World
    from primbench.spec.case import Case


def start_of(case: Case, purpose: WorkerPurpose, arm: Arm | None, world: World | None) -> Start:
    """arm: of the case; None where it names none. world: of processes that were started beside this one, if any were.

    Cases with equal ones can be served by one worker.
    """
    if purpose == "neighbour" and arm is not None and arm.neighbour is not None:
        return neighbour.start_of(arm.neighbour, case)
    met = world if arm is None else None
    network = _network_of(arm)
    return Start(
        backend=case.backend,
        device=case.device,
        placement=case.placement,
        purpose=purpose,
        ranks=case.ranks,
        sharing=1 if met else case.ranks,
        address=met.address if met else networks.address(network, 0) if network else "127.0.0.1",
        network=network,
        hands_in_gpus=case.sees_gpus() and has_gpu_node(),
        kernels=named_files(),
    )


def _network_of(arm: Arm | None) -> networks.NetworkKind | None:
    """That ranks make, in an arm of this machine; containers have theirs from who starts them."""
    held = [value for _, value in (asked(arm, "ranks") if arm and arm.runtime == "host" else ())]
    return next((value for value in held if value != "host"), None)
