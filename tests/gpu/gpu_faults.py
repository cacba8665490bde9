"""A primitive for tests: CuPy calls that break a CUDA context, hang, refuse capture, or wait for the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.problem import Problem, Reference, Step, kernel, option, size

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

FAULTS = ("none", "illegal", "hang", "waits", "uncapturable", "two kernels")


@dataclass(frozen=True)
class GpuFaults(Problem, name="gpu_faults"):
    """y = 2 x, or what ``fault`` says."""

    n: int = size("elements")
    fault: str = option("none", "what goes wrong", FAULTS)

    def bytes_moved(self) -> int:
        return 8 * self.n

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        import numpy as np

        return (rng.random(self.n, dtype=np.float32) + 1,)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        expected = 2.0 * inputs[0].astype(float)
        return Reference(..., expected, expected)

    def tolerance(self) -> float:
        return 1e-6


SOURCE = r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" __global__ void illegal(const float* x, float* y, int n) { y[1ull << 40] = 1; }
extern "C" __global__ void hang(const float* x, volatile float* y, int n) { while (y[0] != 12345.f) { } }
"""


@kernel("gpu_faults", "cupy")
def setup(backend: Any, problem: GpuFaults, x: Any) -> Step:
    import cupy

    module = cupy.RawModule(code=SOURCE)
    y = backend.empty((problem.n,), "float32")
    name = problem.fault if problem.fault in ("illegal", "hang") else "twice"
    function, blocks = module.get_function(name), ((problem.n + 255) // 256,)
    matrix = cupy.ones((64, 64), cupy.float32)

    def step() -> Any:
        function(blocks, (256,), (x, y, cupy.int32(problem.n)))
        if problem.fault == "two kernels":
            function(blocks, (256,), (x, y, cupy.int32(problem.n)))
        if problem.fault == "waits":
            backend.synchronize()
        if problem.fault == "uncapturable":
            cupy.matmul(matrix, matrix)
        return y

    return step
