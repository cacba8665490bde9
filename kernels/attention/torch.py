"""Attention on torch: scaled_dot_product_attention with each of its backends, or the fastest."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.attention._cache import CACHED
from primbench.kernels.attention._sdpa import BACKENDS, attention
from primbench.kernels.attention._torch_cache import TorchCache
from primbench.problem import Outputs, Step, described, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.attention.problem import Attention

ON_CPU = ("flash", "math")
MOST_SCORES_BYTES = 2**28  # beyond which math, which writes all of them, is not tried

# What was found the fastest, by problem and device: every set of inputs must get the same one.
_fastest: dict[tuple[Any, str], tuple[str, str]] = {}


@kernel("attention", "torch")
def torch_attention(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """The step's ``algorithm`` is torch's backend and, where it was chosen here, the times of all.

    torch.nn.attention.sdpa_kernel asks for it around every call, as in a program that does so, but where auto chose
    what torch would take by itself.
    """
    if backend.device.is_gpu:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False  # of the products of math
    if problem.algo != "auto":
        return described(_step(backend, problem, problem.algo, inputs), algorithm=problem.algo)
    key = problem, backend.device
    if key not in _fastest:
        _fastest[key] = _chosen(backend, problem, inputs)
    name, told = _fastest[key]
    return described(_step(backend, problem, name, inputs), algorithm=f"{name} ({told})")


def _chosen(backend: Any, problem: Attention, inputs: tuple[Any, ...]) -> tuple[str, str]:
    """The fastest, and what was found of all; on a CPU the first that takes the problem."""
    from primbench.units import format_time

    steps, refused = dict[str, Step](), []
    for name in _worth_trying(problem) if backend.device.is_gpu else ON_CPU:
        try:
            steps[name] = _step(backend, problem, name, inputs)
        except UnsupportedCase as refusal:
            refused.append(str(refusal))
            continue
        if not backend.device.is_gpu:
            return name, "the first that takes it"
    if not steps:
        raise UnsupportedCase("; ".join(refused))
    tried: dict[str, float] = dict.fromkeys(steps, math.inf)
    for name, step in [*steps.items(), *steps.items()]:  # twice, as the first finds the GPU's clocks low
        tried[name] = min(tried[name], _device_s(backend, step, min(tried.values())))
    told = ", ".join(f"{name} {format_time(time_s)}" for name, time_s in tried.items())
    return min(tried, key=tried.__getitem__), f"tried: {told}"


def _worth_trying(problem: Attention) -> list[str]:
    scores_bytes = 4 * problem.batch_size * problem.heads * problem.seq_len * problem.kv_len
    return [name for name in BACKENDS if name != "math" or scores_bytes <= MOST_SCORES_BYTES]


def _device_s(backend: Any, step: Step, other_s: float) -> float:
    from primbench.cuda import trial

    return trial.device_s(step, backend.stream_handle, other_s, backend.capture)


def _step(backend: Any, problem: Attention, name: str, inputs: tuple[Any, ...]) -> Step:
    """A step that was called once. Raises UnsupportedCase with torch's own reasons where its backend refuses."""
    if not backend.device.is_gpu and name not in ON_CPU:
        raise UnsupportedCase(f"torch's {name} attention is for GPUs: ask for algo={' or '.join(ON_CPU)}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            step = _made(backend, problem, name, inputs)
            step()
            backend.synchronize()
        except RuntimeError as error:
            reasons = dict.fromkeys(" ".join(str(each.message).partition(" (Triggered")[0].split()) for each in said)
            told = "; ".join(reasons) or str(error).splitlines()[0]
            raise UnsupportedCase(f"torch's {name} attention refuses: {told}") from None
    return step


def _made(backend: Any, problem: Attention, name: str, inputs: tuple[Any, ...]) -> Step:
    if problem.mode in CACHED:
        return _with_cache(backend, problem, name, inputs)
    attend = attention(backend, problem, name, inputs[:3])
    if not problem.has_gradients:
        return lambda: attend(*inputs)
    return _with_gradients(backend, problem, attend, inputs)


def _with_cache(backend: Any, problem: Attention, name: str, inputs: tuple[Any, ...]) -> Step:
    cache = TorchCache(backend, problem, inputs)
    attend = attention(backend, problem, name, (cache.q, *cache.read()), cache.lengths)

    def step() -> Any:
        cache.write()
        return attend(cache.q, *cache.read())

    return step


def _with_gradients(
    backend: Any, problem: Attention, attend: Callable[[Any, Any, Any], Any], inputs: tuple[Any, ...]
) -> Step:
    import torch

    *asked, do = inputs
    asked = [array.detach().requires_grad_() for array in asked]
    if problem.mode == "backward":
        kept = attend(*asked)
        return lambda: Outputs(backend, torch.autograd.grad(kept, asked, do, retain_graph=True))

    def train() -> Any:
        o = attend(*asked)
        return Outputs(backend, (o.detach(), *torch.autograd.grad(o, asked, do)))

    return train
