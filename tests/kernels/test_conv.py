from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.devices import Device
from primbench.errors import UnsupportedCase
from primbench.kernels.conv import Conv
from primbench.problem import description_of
from primbench.registry import setup_of
from primbench.timing.verify import check_output

from . import gpu_simulator

pytestmark = pytest.mark.wheel

DIRECTIONS = ("forward", "bwd_data", "bwd_weights")
LAYOUTS = ("nchw", "nhwc")


@pytest.mark.parametrize(("direction", "layout"), list(itertools.product(DIRECTIONS, LAYOUTS)))
@pytest.mark.parametrize("name", ["numpy", "torch", "numba"])
def test_options_are_right_together(name: str, geometry: dict[str, Any], direction: str, layout: str) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed")
    backend = open_backend(name, "cpu")
    problem = Conv(3, 6, 13, 10, 9, 3, 2, direction=direction, layout=layout, **geometry)
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("conv", name)(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(np.random.default_rng(1), *inputs))
    assert tuple(step().shape) == problem.output_shape


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_int8_is_exact(name: str, geometry: dict[str, Any], layout: str) -> None:
    """Against a scale of 0, every sum; those of one element do not fit into 16 bits."""
    pytest.importorskip(name, reason=f"{name} is not installed")
    backend = open_backend(name, "cpu")
    problem = Conv(3, 6, 13, 10, 9, 3, 2, dtype="int8", layout=layout, **geometry)
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("conv", name)(backend, problem, *map(backend.put, inputs))
    assert 0 == check_output(backend, problem, step, problem.reference(np.random.default_rng(1), *inputs))
    assert (np.int32, True) == (step().dtype, bool(np.abs(step()).max() > 2**15))
    assert {0.0} == set(problem.reference(np.random.default_rng(1), *inputs).scale)


@pytest.mark.parametrize(
    ("name", "device", "options", "reason"),
    [
        ("numpy", "cpu", {"dtype": "float16"}, "ask for dtype=float32"),
        ("numpy", "cpu", {"math_mode": "tf32"}, "no tf32 mode"),
        ("numba", "cpu", {"dtype": "float16"}, "no float16 on a CPU"),
        ("numba", "cuda:0", {"dtype": "bfloat16"}, "no bfloat16 arrays"),
        ("numba", "cuda:0", {"math_mode": "tf32"}, "no tf32 mode"),
        ("numpy", "cpu", {"algo": "implicit_gemm"}, "NumPy has no conv algo='implicit_gemm': ask for backend=cupy"),
        ("numba", "cuda:0", {"workspace_bytes": 1}, "Numba has no limit on its workspace"),
    ],
)
def test_case_that_a_backend_cannot_do_is_refused(name: str, device: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedCase, match=reason):
        setup_of("conv", name)(
            SimpleNamespace(device=Device.parse(device)), Conv(1, 8, 8, 8, 8, 3, 3, **options), None, None
        )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"math_mode": "tf32"}, "no tf32 mode"),
        ({"dtype": "int8"}, "torch has no int8 convolution of plain tensors: ask for backend=cupy"),
        ({"algo": "implicit_gemm"}, "torch has no conv algo='implicit_gemm': ask for backend=cupy"),
        ({"workspace_bytes": 2**20}, "torch has no limit on its workspace: ask for backend=cupy, or"),
    ],
)
def test_case_that_torch_on_a_cpu_cannot_do_is_refused(options: dict[str, Any], reason: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(UnsupportedCase, match=reason):
        setup_of("conv", "torch")(open_backend("torch", "cpu"), Conv(1, 8, 8, 8, 8, 3, 3, **options), None, None)


def test_torch_says_by_which_library() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    backend = open_backend("torch", "cpu")
    conv = Conv(2, 16, 12, 12, 16, 3, 3)
    step: Any = setup_of("conv", "torch")(backend, conv, *map(backend.put, conv.inputs(np.random.default_rng(0))))
    assert description_of(step).algorithm in ("Mkldnn", "Slow2d", "NnpackSpatial")


@pytest.mark.parametrize(("direction", "layout"), list(itertools.product(DIRECTIONS, LAYOUTS)))
def test_numba_step_compiles_nothing(direction: str, layout: str) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    from primbench.kernels.conv import _numba_cpu

    kernel = getattr(_numba_cpu, direction)
    conv = Conv(2, 6, 5, 4, 6, 3, 2, groups=2, direction=direction, layout=layout)
    step = setup_of("conv", "numba")(open_backend("numba", "cpu"), conv, *conv.inputs(np.random.default_rng(0)))
    compiled = list(kernel.signatures)
    step()
    assert compiled == kernel.signatures


# The simulator runs threads one by one in Python, hence the sizes, and blocks of a few: each output is of several, the
# last of which has threads to spare. Memory that was never written is NaN.
IN_SIMULATOR = """
import itertools, json, types
import numpy as np
from primbench.devices import nth_gpu
from primbench.dtypes import numpy_dtype
from primbench.kernels.conv import Conv, _numba_cuda
from primbench.kernels.conv.numba import numba_conv
from primbench.problem import description_of

_numba_cuda.THREADS = 7
lowest = {"int8": -128, "int32": -(2**31)}
backend = types.SimpleNamespace(
    device=nth_gpu(0), stream=0, synchronize=lambda: None,
    empty=lambda shape, dtype: np.full(shape, lowest.get(dtype, np.nan), numpy_dtype(dtype)),
)
together = {"pad_h": 2, "pad_w": 1, "stride_h": 2, "stride_w": 1, "dilation_h": 1, "dilation_w": 2, "groups": 2}
wrong = []
cases = [
    *itertools.product(
        ("forward", "bwd_data", "bwd_weights"), ("nchw", "nhwc"), ({"dtype": "float16"}, together, {"stride_w": 3})
    ),
    *itertools.product(("forward",), ("nchw", "nhwc"), ({"dtype": "int8"},)),
]
for direction, layout, options in cases:
    problem = Conv(2, 4, 5, 4, 2, 3, 2, direction=direction, layout=layout, **options)
    rng = np.random.default_rng(1)
    inputs = problem.inputs(rng)
    step = numba_conv(backend, problem, *inputs)
    output, reference = step(), problem.reference(rng, *inputs)
    difference = np.abs(output[reference.index] - reference.expected)
    error = np.max(difference / np.where(reference.scale > 0, reference.scale, 1e-9))
    if not error <= problem.tolerance():
        wrong.append([str(problem), float(error)])
print(json.dumps({"wrong": wrong, "algorithm": description_of(step).algorithm}))
"""


@pytest.mark.slow
def test_gpu_kernels_are_right_in_the_simulator() -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    assert {"wrong": [], "algorithm": "direct, a thread an element"} == gpu_simulator.printed(IN_SIMULATOR)
