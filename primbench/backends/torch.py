"""torch, on the CPU and on NVIDIA GPUs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from primbench.backends._taken import taken
from primbench.dtypes import numpy_dtype
from primbench.errors import BackendUnavailable, UnsupportedCase
from primbench.problem import described
from primbench.system.said import in_short

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from primbench.devices import Device
    from primbench.measurement.implementation import Implementation
    from primbench.problem import Array, Step

RANK = 10
MODULES = ("torch",)
DEVICES = ("cpu", "cuda")
LACKS = {"cpu": ("tf32",)}
INSTALL = "pip install torch (https://pytorch.org/get-started/locally says which build)"
BUILD = {"torch": "torch", "cuda (torch build)": "torch for CUDA", "git": "torch of commit"}

_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn"}


def threads(framework: Any) -> int | None:
    ask = getattr(framework, "get_num_threads", None)
    return ask() if ask else None


def compiled(call: Callable[[], Any]) -> Step:
    """The call as torch.compile makes it, once made. Raises UnsupportedCase where it cannot."""
    import torch

    made = torch.compile(call, fullgraph=True, dynamic=False)
    try:
        made()
    except Exception as error:  # of its own, of Triton, of a compiler of C++
        said = " ".join(str(error).split("\n\n")[0].split())  # what it is that raised, and what that said
        raise UnsupportedCase(f"torch.compile: {type(error).__name__}: {in_short(said)}") from error
    return described(made, algorithm="torch.compile")


class TorchCpu:
    name = "torch"

    def __init__(self, device: Device) -> None:
        import torch

        self.device = device
        self._torch = torch

    def put(self, host: Array) -> Any:
        import numpy as np

        dtype = getattr(self._torch, host.dtype.name)
        if host.dtype.kind == "V" or not hasattr(np, host.dtype.name):  # ml_dtypes: torch takes them as bits
            host = host.view(np.dtype(f"int{8 * host.dtype.itemsize}"))
        return self._torch.from_numpy(host).view(dtype).to(str(self.device), copy=True)

    def get(self, array: Any) -> Array:
        array = array.detach()  # of a user's function, which may record for gradients
        name = str(array.dtype).removeprefix("torch.")
        host: Array
        if name == "bfloat16" or name.startswith("float8"):
            bits = self._torch.int16 if array.element_size() == 2 else self._torch.int8
            host = array.view(bits).cpu().numpy()
            return host.view(numpy_dtype(name.removesuffix("fn")))
        host = array.cpu().numpy()
        return host

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._torch.empty(shape, dtype=self.dtype(dtype), device=str(self.device))

    def poison(self, array: Any) -> None:
        array.fill_(float("nan") if array.dtype.is_floating_point else self._torch.iinfo(array.dtype).min)

    def synchronize(self) -> None:
        """Nothing to wait for: calls return when they are done."""

    def release(self) -> None:
        """torch keeps no CPU memory of dropped tensors."""

    def close(self) -> None:
        """Nothing of the process was changed."""

    def taken(self) -> AbstractContextManager[list[list[Implementation]]]:
        """See ``_taken.taken``: of a CPU's calls."""
        return taken(self._torch)

    def versions(self) -> dict[str, str]:
        return {"torch": str(self._torch.__version__), "git": self._torch.version.git_version or "unknown"}

    def dtype(self, name: str) -> Any:
        return getattr(self._torch, _TORCH_NAMES.get(name, name))


class TorchCuda(TorchCpu):
    """Works on a stream of its own, made current until close()."""

    def __init__(self, device: Device) -> None:
        from primbench.gpu.nvidia.second_context import SecondContext

        super().__init__(device)
        torch = self._torch
        torch.cuda.set_device(str(device))
        self.second_context = SecondContext(device.index)
        self._flags = _precision_flags(torch)
        self._outer_stream = torch.cuda.current_stream()
        self._stream = torch.cuda.Stream()
        torch.cuda.set_stream(self._stream)
        self.stream_handle: int = self._stream.cuda_stream

    def synchronize(self) -> None:
        self._stream.synchronize()

    def release(self) -> None:
        self._torch.cuda.empty_cache()

    def close(self) -> None:
        self._torch.cuda.set_stream(self._outer_stream)
        for owner, name, value in self._flags:
            setattr(owner, name, value)
        self.second_context.close()

    def extent(self, array: Any) -> tuple[int, int] | None:
        return (array.data_ptr(), array.numel() * array.element_size()) if array.is_contiguous() else None

    def capture(self, enqueue: Callable[[], None]) -> TorchGraph:
        return TorchGraph(self._torch, self.stream_handle, enqueue)

    def versions(self) -> dict[str, str]:
        torch = self._torch
        return super().versions() | {
            "cuda (torch build)": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }


def _precision_flags(torch: Any) -> list[tuple[Any, str, Any]]:
    """What kernels set for the whole process: whose it is, its name, its value now."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    names = (
        "allow_tf32",
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",  # since torch 2.7
    )
    flags = [(matmul, name) for name in names if hasattr(matmul, name)] + [(cudnn, "allow_tf32"), (cudnn, "benchmark")]
    if hasattr(cudnn, "rnn"):  # since torch 2.9; after allow_tf32, which sets it, too
        flags.append((cudnn.rnn, "fp32_precision"))
    return [(owner, name, getattr(owner, name)) for owner, name in flags]


class TorchGraph:
    """A graph by torch's own capture, which its allocator must know of."""

    launch: Callable[[], None]
    """Launches nothing but the graph; before torch 2.8 the same as replay."""
    replay: Callable[[], None]
    """torch's own way, which fills a seed and an offset before a graph that draws."""
    longest_path: int | None = None
    """As ``Graph`` has it; None before torch 2.8."""

    def __init__(self, torch: Any, stream: int, enqueue: Callable[[], None]) -> None:
        from primbench.gpu.nvidia import driver

        try:
            self._graph = torch.cuda.CUDAGraph(keep_graph=True)
        except TypeError:
            self._graph = torch.cuda.CUDAGraph()
        self._graph.capture_begin(capture_error_mode="thread_local")
        try:
            enqueue()
            self.nodes = driver.nodes_being_captured(stream)
        finally:
            with warnings.catch_warnings():  # that it is empty, which is found out by its nodes
                warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
                self._graph.capture_end()
        self.launch = self.replay = self._graph.replay
        if hasattr(self._graph, "raw_cuda_graph"):
            from ctypes import c_void_p

            graph = driver.DriverGraph(c_void_p(self._graph.raw_cuda_graph()), stream)
            self.launch, self.longest_path = graph.launch, graph.longest_path


def open(device: Device) -> TorchCpu:  # noqa: A001 - the name every backend file has
    """Raises BackendUnavailable where torch does not reach the device."""
    if not device.is_gpu:
        return TorchCpu(device)
    import torch

    if not torch.cuda.is_available():
        found = "is built without CUDA" if torch.version.cuda is None else "finds no usable GPU or driver"
        raise BackendUnavailable(f"backend torch on {device}: torch {torch.__version__} {found}")
    if device.index >= torch.cuda.device_count():
        raise BackendUnavailable(f"backend torch on {device}: torch sees {torch.cuda.device_count()} GPU(s)")
    return TorchCuda(device)
