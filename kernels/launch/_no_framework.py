"""Which calls no framework takes part in: they are the same beside every one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.launch.problem import ADDITIONS, OF_CPUS, OF_TORCH, WITHOUT_FRAMEWORK

if TYPE_CHECKING:
    from primbench.kernels.launch.problem import Launch
    from primbench.problem import Step


def step_without_framework(backend: Any, problem: Launch) -> Step | None:
    """None where the framework makes the call. Raises UnsupportedCase for what the kind of device does not have."""
    if problem.call in OF_TORCH and backend.name != "torch":
        raise UnsupportedCase(f"call={problem.call} is torch's: ask for backend=torch, or call=dispatch")
    if not backend.device.is_gpu:
        return None if problem.call in ADDITIONS and not problem.nodes else _on_cpu(problem)
    if problem.call in OF_CPUS:
        raise UnsupportedCase(f"{problem.call} is a call of the CPU: ask for device=cpu")
    return _by_driver(backend, problem) if problem.call in WITHOUT_FRAMEWORK else None


def _on_cpu(problem: Launch) -> Step:
    from primbench.kernels.launch._host import host_step

    return host_step(problem)


def _by_driver(backend: Any, problem: Launch) -> Step:
    if problem.graph == "replay":
        from primbench.kernels.launch._driver import driver_step

        return driver_step(backend, problem)
    from primbench.kernels.launch._graphs import graph_step

    return graph_step(backend, problem)
