"""Functions that are no kernels: called with inputs that another one makes, their output compared with another's."""

from __future__ import annotations

import functools
import random
import sys
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase, VerificationError
from primbench.problem import Outputs, Reference, described, description_of
from primbench.timing.digest import of_host
from primbench.timing.verify import refuse_deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.problem import Array, Step

# Of the largest element, as torch.testing.assert_close and KernelBench have it, rounded up.
TOLERANCES = MappingProxyType({"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 2e-2})
_FRAMEWORKS = ("cupy", "torch")
EXACT = 1e-300
"""Of the largest element: a share that no two that differ are within."""


def with_inputs(function: Callable[..., Any], setup: Callable[[], Any]) -> Callable[[], Any]:
    """A call of a function with what its setup returns: a tuple of arguments, or one. It touches these at least."""
    with _same_seeds():
        inputs = setup()
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    size_bytes = sum(int(getattr(each, "nbytes", 0)) for each in given)
    return described(functools.partial(function, *given), touched_bytes=lambda: size_bytes)


@contextmanager
def _same_seeds() -> Iterator[None]:
    """The generators of random, NumPy and torch begin at 0 inside, and go on afterwards as if nothing was drawn."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    with ExitStack() as afterwards:
        afterwards.callback(random.setstate, random.getstate())
        random.seed(0)
        if numpy is not None:
            afterwards.callback(numpy.random.set_state, numpy.random.get_state())
            numpy.random.seed(0)
        if torch is not None:
            on_gpu = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
            afterwards.enter_context(torch.random.fork_rng(devices=on_gpu))
            torch.manual_seed(0)
        yield


def on_host(output: Any) -> Array:
    """An array of NumPy, torch or CuPy, or all elements of several in float32, as Outputs has them.

    Raises UnsupportedCase for what is none of these.
    """
    import numpy as np

    if isinstance(output, tuple | list):
        return np.concatenate([on_host(each).reshape(-1).astype(np.float32) for each in output])
    if hasattr(output, "detach"):
        output = output.detach()
        wide = output.float() if output.dtype.itemsize < 4 and output.dtype.is_floating_point else output
        found: Array = wide.cpu().numpy()
        return found
    if hasattr(output, "get") and hasattr(output, "dtype"):
        output = output.get()
    if isinstance(output, np.ndarray) and output.dtype.kind not in "cOSU":
        return output
    raise UnsupportedCase(f"{output!r:.60}: what is compared is an array of real numbers, or a tuple of such")


def reference_of(output: Array) -> Reference:
    """What another output has to equal, within what its type allows: a tolerance of 1 of its scale."""
    import numpy as np

    expected = output.astype(np.float64)
    largest = float(np.abs(expected).max(initial=0.0)) or 1.0
    scale = np.full(expected.shape, largest * TOLERANCES.get(output.dtype.name, EXACT))
    return Reference(index=..., expected=expected, scale=scale)


def comparable(backend: Any, call: Callable[[], Any]) -> Step:
    """The call, as what is compared with another's output; of several arrays with one more call around it, of 0.2 us.

    Raises UnsupportedCase where an array is of another framework than the backend, NumPy's aside, and VerificationError
    where one is not plain, or the call changes its arguments: each would find what the one before has left.
    """
    inputs = arguments_of(call)
    before = [of_host(on_host(each)) for each in inputs]
    output = call()
    is_several = isinstance(output, tuple | list)
    arrays = tuple(output) if is_several else (output,)
    _refuse_others(backend, arrays)
    for each, digest in zip(inputs, before, strict=True):
        if not any(each is array for array in arrays) and of_host(on_host(each)) != digest:
            raise VerificationError("a call changes an argument that it does not return: the next one finds that")
    touched_bytes = description_of(call).touched_bytes
    step = (lambda: Outputs(backend, tuple(call()))) if is_several else call
    return described(step, inputs=inputs, touched_bytes=touched_bytes)


def _refuse_others(backend: Any, arrays: tuple[Any, ...]) -> None:
    """Raises as comparable() does of outputs."""
    for array in arrays:
        owner = type(array).__module__.partition(".")[0]
        if owner in _FRAMEWORKS and owner != backend.name:
            raise UnsupportedCase(f"an output of {owner}: measure it by --backend {owner}")
        refuse_deferred(array)


def calls_it(call: Callable[[], Any], other: Callable[..., Any]) -> bool:
    """Whether a function of Python is called where a call is made, of this thread."""
    code, seen, before = getattr(other, "__code__", None), set[int](), sys.getprofile()
    sys.setprofile(lambda frame, event, of: seen.add(id(frame.f_code)))  # two of the same words are equal
    try:
        call()
    finally:
        sys.setprofile(before)
    return id(code) in seen


def arguments_of(call: Callable[[], Any]) -> list[Any]:
    """Those that are arrays of real numbers, of what with_inputs() gives."""
    given = getattr(call, "args", ())
    return [each for each in given if hasattr(each, "dtype") and "complex" not in str(each.dtype)]
