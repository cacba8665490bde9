"""Weights on every backend: by the driver on a GPU, by the backend's own copy on a CPU, or by the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.weights._file import layout
from primbench.problem import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.weights._step import Load
    from primbench.kernels.weights.problem import Weights
    from primbench.problem import Step

_FRAMEWORKS = {"numpy": "np", "torch": "pt"}  # as safe_open calls them


@kernel("weights", "numpy", "torch", "cupy")
def weights(backend: Any, problem: Weights, period: Any) -> Step:
    """Raises UnsupportedCase where the place, or what is installed, lacks what is asked for."""
    from primbench.kernels.weights._step import step_of

    output = backend.empty((problem.bytes_moved(),), "int8")
    load, by = _loading(backend, problem, output)
    return step_of(problem, backend.get(period), load, output, by)


def _loading(backend: Any, problem: Weights, output: Any) -> tuple[Load, str]:
    """What loads a file, and in words by what."""
    if problem.how == "safetensors":
        return _by_package(backend, problem, output)
    if backend.device.is_gpu:
        from primbench.kernels.weights._cuda import COPY, cuda_load

        return cuda_load(problem, backend.stream_handle, output), COPY
    from primbench.kernels.weights._host import host_load

    copy, by = _copying(backend, output)
    place = output if backend.name == "numpy" else output.numpy()
    return host_load(problem, place, copy), "read(2)" if problem.how == "read" else by


def _copying(backend: Any, output: Any) -> tuple[Callable[[slice, Any], object], str]:
    """What copies an array of NumPy's to a place of the output on a CPU, and what it is called."""
    import numpy as np

    if backend.name == "numpy":
        return lambda place, host: np.copyto(output[place], host), "numpy.copyto"
    import torch

    return lambda place, host: output[place].copy_(torch.from_numpy(host)), "torch.Tensor.copy_"


def _by_package(backend: Any, problem: Weights, output: Any) -> tuple[Load, str]:
    """Raises UnsupportedCase where the package is not there, or does not make arrays of the backend."""
    import numpy as np

    if backend.name not in _FRAMEWORKS:
        raise UnsupportedCase(f"safetensors makes no arrays of {backend.name}: ask for how=mmap, or for torch")
    try:
        import safetensors
    except ImportError:
        reason = "how=safetensors needs the package: pip install safetensors, or ask for how=mmap"
        raise UnsupportedCase(reason) from None
    is_torch = backend.name == "torch"
    device = str(backend.device) if is_torch else "cpu"
    places = [(each.name, output[each.begin : each.end]) for each in layout(problem.tensors, problem.bytes)]
    copy: Callable[[Any, Any], object] = (lambda to, of: to.copy_(of)) if is_torch else np.copyto

    def load(path: str) -> None:
        with safetensors.safe_open(path, framework=_FRAMEWORKS[backend.name], device=device) as file:
            for name, place in places:
                copy(place, file.get_tensor(name))
        backend.synchronize()

    return load, f"safetensors {safetensors.__version__}"
