"""Launch: what a call costs that has next to nothing to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from primbench.errors import InvalidField
from primbench.problem import Problem, Reference, option
from primbench.random import random_array

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement, Samples
    from primbench.problem import Array

OF_GPUS = ("kernel", "driver", "runtime")
WITHOUT_FRAMEWORK = ("driver", "runtime", "ctypes")
OF_CPUS = ("getppid", "thread_wake", "process_start")
# What each call spends its time on; the other calls make no system call.
SYSTEM_CALLS = {
    "getppid": ("getppid",),
    "thread_wake": ("futex",),
    "process_start": ("clone", "clone3", "vfork", "execve", "wait4", "mmap"),
}
SYSTEM_CALL_COUNTS = {"getppid": 1, "thread_wake": 8, "process_start": 64}  # 29 of a program that does nothing (strace)
OF_TORCH = ("module", "custom_op", "compiled", "triton")
ADDITIONS = ("dispatch", *OF_TORCH)
CALLS = (*ADDITIONS, *OF_GPUS, "ctypes", *OF_CPUS)
TAKE_PARAMETERS = (*OF_GPUS, "ctypes")
SEALS = ("none", "ioctl", "all")
GRAPHS = ("replay", "set_parameters", "update", "if", "while")
MAX_PARAMETER_BYTES = 4096  # CUDA C++ Programming Guide, "__global__": the limit that every GPU has


@dataclass(frozen=True)
class Launch(Problem, name="launch"):
    """The cost of calling: a kernel or a graph on a GPU; on a CPU what a call, a thread and a process cost.

    dispatch is the framework's own addition of 1 to one element. Of torch there are layers above it: module calls a
    Module whose forward makes that addition, custom_op an operator of torch.library that does, compiled what
    torch.compile makes of it. triton is the addition as a kernel of Triton's.

    On a GPU, kernel is an empty kernel launched by the framework (torch has none, and zeroes one element), driver the
    same through cuda.bindings, ctypes the driver through ctypes, runtime the CUDA runtime through ctypes. On a CPU,
    ctypes calls an empty C function, getppid the kernel of the system; thread_wake wakes a waiting thread and waits for
    its answer; process_start starts /bin/true and waits for its end.

    A graph is replayed as it is, or changed before each launch: set_parameters has other parameters set of every node
    by a call each, update the instance made alike to another graph by one call. if has every kernel as the body of a
    conditional node whose condition holds, while one kernel as the body of a loop of as many passes. These are the
    driver's, by ctypes; conditional nodes need CUDA 12.4.

    first is what the first call of the process takes, with all that is made for it; the framework is imported by then.

    A seal answers whether calls in steady state enter the kernel of the system: 10000 of them, ten between two waits,
    are made once more by a thread whose ioctl, or whose every system call but waiting for other threads and reading
    the clock, is refused. Refused system calls are counted, and stand by name in the record; getppid makes one a call.
    """

    call: str = option("dispatch", "what is called", CALLS)
    parameter_bytes: int = option(0, "of the kernel: 0, or a multiple of 8 from 16 to 4096")
    nodes: int = option(0, "kernels of a graph that a call replays; 0 launches one without a graph", least=0)
    graph: str = option("replay", "what is done to a graph before it is launched, or what its nodes are", GRAPHS)
    seal: str = option("none", "system calls that are refused to calls made once more", SEALS)

    example_sizes = ((),)  # a launch has no sizes
    work = "launch"
    margin = 0.05
    set_up_s = (0.1, 0.7)
    preferred = ("enqueue_s", "batch_s", "wall_s")
    has_tails = True

    def settle(self) -> None:
        size, nodes = self.parameter_bytes, self.nodes
        if size not in (0, *range(16, MAX_PARAMETER_BYTES + 1, 8)):
            raise InvalidField(f"launch parameter_bytes={size!r}: 0, or a multiple of 8 from 16 to 4096")
        if size and self.call not in TAKE_PARAMETERS:
            takers = " or ".join(f"call={each!r}" for each in TAKE_PARAMETERS)
            raise InvalidField(f"launch parameter_bytes={size} with call={self.call!r}: ask for {takers}")
        if nodes and self.call in OF_CPUS:
            raise InvalidField(f"launch nodes={nodes} with call={self.call!r}: a graph holds kernels only")
        if self.graph != "replay":
            self._settle_graph()

    def _settle_graph(self) -> None:
        asked, least = f"launch graph={self.graph!r}", 24 if self.graph == "while" else 16
        if self.call != "ctypes":
            raise InvalidField(f"{asked} with call={self.call!r}: ask for call='ctypes', which is the driver's")
        if not self.nodes:
            raise InvalidField(f"{asked} with nodes=0: at least one kernel")
        if self.parameter_bytes < least:
            raise InvalidField(f"{asked} with parameter_bytes={self.parameter_bytes}: at least {least}")

    def bytes_moved(self) -> None:
        """The few there are say nothing."""

    def one_launch(self) -> Literal["dispatch", "empty kernel"] | None:
        if self.nodes or self.call in (*OF_CPUS, *OF_TORCH):
            return None
        return "dispatch" if self.call == "dispatch" else "empty kernel"

    def system_calls(self) -> tuple[str, ...]:
        return SYSTEM_CALLS.get(self.call, ())

    def system_call_count(self) -> int | None:
        return SYSTEM_CALL_COUNTS.get(self.call)

    def opened_files(self) -> int | None:
        """Of /bin/true: the program, the list of libraries and the C library."""
        return {"getppid": 0, "thread_wake": 0, "process_start": 4}.get(self.call)

    def library_calls(self) -> int | None:
        return None if self.call in ("thread_wake", "process_start") else 1

    def memory_bytes(self) -> int:
        return 8 + 4 * self.nodes

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        return (random_array(rng, (1,), "float32"),) if self.call in ADDITIONS else ()

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        import numpy as np

        if inputs:
            expected = inputs[0].astype(np.float64) + 1
        elif self.parameter_bytes:
            expected = np.arange(1.0, max(1, self.nodes) + 1)
        else:
            expected = np.zeros(1)
        return Reference(index=..., expected=expected, scale=np.ones_like(expected))

    def why_unverifiable(self) -> str | None:
        if self.parameter_bytes or self.call in (*ADDITIONS, "thread_wake", "process_start"):
            return None
        return "an empty call leaves nothing to compare; on a GPU --trace counts the kernels"

    def tolerance(self) -> float:
        """Half the distance of float32 numbers around 1, of which the sum is one."""
        return 2.0**-24

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """Tails of single calls; of graphs, the GPU's time for each node; what was done under a seal."""
        single_s, wall_s, device_s = measured.enqueue_single_s, measured.wall_s, measured.device_s
        others, trace = measured.others, measured.trace
        sealed_s, refused = others.get("sealed_s"), measured.refused_calls
        return {
            "single_p50_s": _quantile_s(single_s, 0.5),
            "single_p99_s": _quantile_s(single_s, 0.99),
            "single_p999_s": _quantile_s(single_s, 0.999),
            "wall_p99_s": _quantile_s(wall_s, 0.99),
            "wall_p999_s": _quantile_s(wall_s, 0.999),
            "launch_to_start_s": _quantile_s(trace.launch_to_start_s if trace else None, 0.5),
            "full_queue_s": _quantile_s(others.get("full_queue_s"), 0.5),
            "first_s": _quantile_s(others.get("first_s"), 0.5),
            "instantiate_s": _quantile_s(others.get("instantiate_s"), 0.5),
            "per_node_s": device_s.median_s / self.nodes if device_s and self.nodes else None,
            "unsealed_s": _quantile_s(others.get("unsealed_s"), 0.5),
            "sealed_s": _quantile_s(sealed_s, 0.5),
            "sealed_calls": len(sealed_s.samples_s) * sealed_s.calls_per_sample if sealed_s else None,
            "refused_calls": None if refused is None else sum(refused.values()),
        }


def _quantile_s(found: Samples | None, q: float) -> float | None:
    """A quantile in seconds; None without samples, or where fewer than ten lie beyond it in the tail."""
    if found is None or (q > 0.5 and len(found.samples_s) * (1 - q) < 10):
        return None
    return found.quantile_s(q)
