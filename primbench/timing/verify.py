"""Compare a kernel's output with the float64 reference before anything is timed."""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

from primbench.dtypes import poison_host
from primbench.errors import VerificationError
from primbench.problem import Exact, description_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import Backend
    from primbench.problem import Array, Problem, Reference, Step

# Quiet NaN patterns begin above infinity's bits; tested as integers because NumPy's isnan is slow on ml_dtypes.
_INFINITY_BITS = {"float16": 0x7C00, "bfloat16": 0x7F80, "float8_e4m3fn": 0x7E}
_BLOCK = 1 << 20
# Classes of arrays whose elements are there, by the package that has them: a subclass may compute them once they are
# looked at, when no clock runs any more.
_PLAIN = MappingProxyType(
    {
        "cupy": ("ndarray",),
        "numba": ("DeviceNDArray", "MappedNDArray", "FakeCUDAArray"),
        "numpy": ("ndarray", "memmap"),
        "torch": ("Tensor", "Parameter"),
    }
)


def check_output(backend: Backend, problem: Problem, step: Step, reference: Reference | Exact) -> float:
    """Run ``step`` on an output poisoned with NaN, and check that. Raises as error_of() does."""
    return error_of(on_host(backend, rewritten(backend, step)), problem, reference)


def error_of(host: Array, problem: Problem, reference: Reference | Exact) -> float:
    """The largest |output - expected| / scale of a poisoned output that was written again.

    Raises VerificationError where it exceeds the problem's tolerance or an element was not written.
    """
    unwritten = count_unwritten(host)
    if unwritten:
        raise VerificationError(f"{unwritten} of {host.size} elements of the output were never written, or are NaN")
    if isinstance(reference, Exact):
        return _no_error(host, reference.expected)
    error = _largest_error(host, reference.index, reference.expected, reference.scale)
    if not error <= problem.tolerance():
        raise VerificationError(
            f"wrong result: error {error:.3g} of the natural size, tolerance {problem.tolerance():.3g}"
        )
    return error


def rewritten(backend: Backend, step: Step) -> Any:
    """The output of a call that found it poisoned: what it did not write shows.

    One call is enough where each is a process of its own, which says what it made.
    """
    output = step()
    backend.synchronize()
    return output if description_of(step).is_process else called_again(backend, step, output)


def called_again(backend: Backend, step: Step, output: Any) -> Any:
    """The output of a call more, which found that of the last one poisoned."""
    poison(backend, output)
    output = step()
    backend.synchronize()
    return output


def poison(backend: Backend, output: Any) -> None:
    """Make an element that the next call leaves out show, in whichever of its forms the output is.

    A copy to the host ends in host memory, one to another GPU where the backend does not reach. Raises
    VerificationError for what is no array.
    """
    if hasattr(output, "poison"):
        output.poison()
    elif hasattr(output, "dtype"):
        overwrite(backend, output)
    else:
        raise VerificationError(
            f"a call returned {' '.join(repr(output).split()):.60}, of type {type(output).__name__}: "
            "it is to return its output, an array"
        )


def overwrite(backend: Backend, array: Any) -> None:
    """An array of the backend, or of the host, with NaN."""
    if is_host_array(array):
        poison_host(array)
    else:
        backend.poison(array)


def refuse_deferred(array: Any) -> None:
    """Raises VerificationError for an array that is of a class of its own, or has methods of its own."""
    kind = type(array)
    package = kind.__module__.partition(".")[0]
    is_known = getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
    has_own = any(map(callable, getattr(array, "__dict__", {}).values()))
    is_elsewhere = package == "torch" and array.device.type not in ("cpu", "cuda")
    if not is_known or kind.__name__ not in _PLAIN.get(package, ()) or has_own or is_elsewhere:
        own = " with methods of its own" if has_own else f" on {array.device}" if is_elsewhere else ""
        raise VerificationError(
            f"a call returned a {kind.__module__}.{kind.__qualname__}{own}, which may compute what it holds once that "
            "is looked at: it is to return a plain array"
        )


def on_host(backend: Backend, output: Any) -> Array:
    """What a step returned, as a host array, whichever of the forms of an output it has."""
    if is_host_array(output):
        return output
    found: Array = output.get() if hasattr(output, "poison") else backend.get(output)
    return found


def is_host_array(output: Any) -> TypeGuard[Array]:
    """Whether it is NumPy's."""
    import numpy as np

    return isinstance(output, np.ndarray)


def _no_error(host: Array, expected: Array) -> float:
    """0, for an output that is as expected, once or several times over."""
    if host.dtype != expected.dtype or host.size % expected.size:
        raise VerificationError(
            f"the output is {host.dtype.name}[{host.size}], expected {expected.dtype.name}[{expected.size}] repeated"
        )
    wrong = sum(
        _sum_of_blocks(part, expected.reshape(-1), is_counted=lambda block, right: block != right)
        for part in host.reshape(-1, expected.size)
    )
    if wrong:
        raise VerificationError(f"wrong result: {wrong} of {host.size} elements differ from what they are to be")
    return 0.0


def _largest_error(host: Array, index: Any, expected: Array, scale: Array) -> float:
    import numpy as np

    found = host[index].astype(np.float64)
    if found.shape != expected.shape:
        raise VerificationError(f"the output has shape {found.shape}, expected {expected.shape}")
    with np.errstate(invalid="ignore"):  # of infinities, which are as expected where both are
        difference = np.where(found == expected, 0.0, np.abs(found - expected))
    if unknown := int(np.isnan(difference).sum()):
        raise VerificationError(f"wrong result: {unknown} of {found.size} elements, or what they are to be, are NaN")
    with np.errstate(divide="ignore"):
        relative = np.divide(difference, scale, out=np.zeros_like(difference), where=difference > 0)
    return float(relative.max())


def count_unwritten(host: Array) -> int:
    """How many elements still are what poisoning leaves: NaN, in integers the smallest value."""
    import numpy as np

    flat = host.reshape(-1)
    if host.dtype.kind == "i":
        return _sum_of_blocks(flat, is_counted=lambda block: block == np.iinfo(host.dtype).min)
    limit = _INFINITY_BITS.get(host.dtype.name)
    if limit is None:
        return _sum_of_blocks(flat, is_counted=np.isnan)
    magnitude = (1 << (8 * host.dtype.itemsize - 1)) - 1
    return _sum_of_blocks(flat.view(f"u{host.dtype.itemsize}"), is_counted=lambda bits: (bits & magnitude) > limit)


def _sum_of_blocks(*flat: Array, is_counted: Callable[..., Array]) -> int:
    """How many elements are counted, of arrays of one length, by threads that each take blocks which a cache holds."""
    import numpy as np

    def count(start: int) -> int:
        return int(np.count_nonzero(is_counted(*(each[start : start + _BLOCK] for each in flat))))

    if flat[0].size <= _BLOCK:
        return count(0)
    from concurrent.futures import ThreadPoolExecutor  # takes 20 ms, which every worker would pay

    with ThreadPoolExecutor() as threads:
        return sum(threads.map(count, range(0, flat[0].size, _BLOCK)))
