"""The chase by one thread of a GPU, through pinned memory of the host."""

from __future__ import annotations

from ctypes import byref, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.cuda import copies, kernels
from primbench.cuda.copies import DeviceMemory
from primbench.gpu.nvidia import driver
from primbench.kernels.chase.problem import STRIDE_BYTES, WORD_BYTES
from primbench.problem import described

if TYPE_CHECKING:
    from primbench.kernels.chase.problem import Chase
    from primbench.problem import Array, Step


@dataclass(frozen=True)
class End:
    """Where the chain ends, as the output of a step."""

    memory: DeviceMemory
    first: int
    """The address of its beginning."""
    held: tuple[Any, ...]
    """What the calls of the step know by plain handles, and must live as long as it."""

    def poison(self) -> None:
        self.memory.poison()

    def get(self) -> Array:
        """int64[1]: the place."""
        import numpy as np

        return (self.memory.get().view(np.int64) - self.first) // STRIDE_BYTES


def cuda_step(backend: Any, problem: Chase, following: Any) -> Step:
    """Each place holds the address of the next one, as the GPU knows it."""
    import numpy as np

    node = None if problem.node < 0 else problem.node
    host = copies.pinned_on(problem.bytes, node)
    first = c_ulonglong()
    driver.call("cuMemHostGetDevicePointer_v2", byref(first), c_void_p(host.address), c_uint())
    chain = host.array.view(np.int64)
    chain[:: STRIDE_BYTES // WORD_BYTES] = first.value + backend.get(following) * STRIDE_BYTES
    module = kernels.module(kernels.text_of("chase", "walk.cu"))
    memory = DeviceMemory(backend.device.index, WORD_BYTES)
    values = (first, c_ulonglong(problem.loads), c_ulonglong(memory.address))
    launch, arguments = kernels.launch(module.function("walk"), 1, 1, backend.stream_handle, values)
    end = End(memory, first.value, (module, host))

    def step() -> End:
        if status := launch(*arguments):
            raise driver.failure("cuLaunchKernel", status)
        return end

    return described(
        step, algorithm=f"walk.cu, 1 thread, {host.how}", stream_only=True, host_buffers=[(host.array, node)]
    )
