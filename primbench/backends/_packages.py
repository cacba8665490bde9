"""Kernels that other packages bring, on tensors of torch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from primbench.errors import KernelUnavailable, UnsupportedCase
from primbench.problem import described
from primbench.system.said import in_short

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import Backend
    from primbench.problem import Step


def need_package(backend: Backend, module: str, source: str) -> None:
    """Raises KernelUnavailable where it is not installed, or cannot compute here. source: where to have it from."""
    if not backend.device.is_gpu:
        raise KernelUnavailable(f"{module} needs a GPU")
    if find_spec(module) is None:
        raise KernelUnavailable(f"{module} is not installed: {source} says how")


def launched(name: str, call: Callable[[], Any], algorithm: Callable[[], str] | None = None) -> Step:
    """The call, once made, which compiles and tunes its kernel. algorithm: what is said of it then, else its name.

    Raises UnsupportedCase where it cannot be compiled, or launched.
    """
    try:
        call()
    except Exception as error:  # of its compiler, of ptxas, of the driver
        said = " ".join(str(error).split())
        raise UnsupportedCase(f"{name}: {type(error).__name__}: {in_short(said)}") from error
    return described(call, algorithm=algorithm() if algorithm else name)
