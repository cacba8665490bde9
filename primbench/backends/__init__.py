"""A backend puts arrays on a device, gets them back and waits: one file each, same name as the backend.

The file ``primbench/backends/NAME.py`` has ``open(device) -> Backend`` and the constants ``RANK`` (the least is what is
taken where none is named), ``MODULES`` (what must be importable), ``DEVICES`` (kinds it can reach), ``LACKS`` (by such
kind, dtypes and math modes that none of its kernels has), ``INSTALL`` (what to type when a module is missing) and
``BUILD`` (of its versions, what tells one build from another, in words).
One whose framework has threads of its own has ``threads(framework)``, too: how many compute, None while they cannot be
told, where framework is the first of its modules, maybe half imported.
It imports its framework, and what calls CUDA, inside functions only, so that naming a backend costs nothing.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from primbench.devices import CPU, Device, nth_gpu
from primbench.errors import BackendUnavailable, InvalidRequest, near

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.gpu.nvidia.second_context import SecondContext
    from primbench.problem import Array


class Graph(Protocol):
    """Captured launches."""

    nodes: int
    """How many kernels, copies and fills there are."""
    longest_path: int | None
    """How many of these are on the longest path, where each waits for the one before; None where that is not known."""

    def launch(self) -> None: ...


class Backend(Protocol):
    """What every backend can do."""

    name: str
    device: Device

    def put(self, host: Array) -> Any:
        """Copy a host array to the device, keeping its shape and type."""

    def get(self, array: Any) -> Array:
        """Copy an array of this backend to the host. On a CPU it is there already, and this is the same memory."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An uninitialised array of a primbench dtype."""

    def poison(self, array: Any) -> None:
        """Fill with NaN (integers: the smallest value), so that an element never written is seen."""

    def synchronize(self) -> None:
        """Wait until everything enqueued is done."""

    def release(self) -> None:
        """Give the memory of dropped arrays back to the device."""

    def close(self) -> None:
        """Undo what opening changed in this process, such as the current stream."""

    def versions(self) -> dict[str, str]:
        """Versions of the framework and of the libraries it computes with."""


class GpuBackend(Backend, Protocol):
    """A backend on an NVIDIA GPU."""

    stream_handle: int
    """The stream that all its work goes to: a non-blocking one of its own."""
    second_context: SecondContext
    """Another context of its GPU, which timers visit and close() closes."""

    def extent(self, array: Any) -> tuple[int, int] | None:
        """The address of an array and its bytes; None where its elements do not follow one another as C has them."""

    def capture(self, enqueue: Callable[[], None]) -> Graph:
        """Capture what ``enqueue`` puts on the stream. Raises an exception where the framework refuses."""


def names() -> list[str]:
    """Every backend there is a file for, best first."""
    return sorted(files(), key=lambda name: (_module(name).RANK, name))


@functools.cache
def files() -> list[str]:
    """Names of all backends in alphabetical order, by their files: imports none of them."""
    found = itertools.chain(*map(os.listdir, __path__))
    return sorted(name.removesuffix(".py") for name in found if name.endswith(".py") and not name.startswith("_"))


def devices_of(name: str) -> tuple[str, ...]:
    """Kinds of device ("cpu", "cuda") that a backend can reach."""
    return cast("tuple[str, ...]", _module(name).DEVICES)


def lacks(name: str, device: Device, arithmetic: str) -> bool:
    """Whether none of a backend's kernels computes with a dtype, or in a math mode, on that kind of device."""
    kinds: dict[str, tuple[str, ...]] = _module(name).LACKS
    return arithmetic in kinds.get(device.kind, ())


def modules_of(name: str) -> tuple[str, ...]:
    """Names of the modules that a backend needs."""
    return cast("tuple[str, ...]", _module(name).MODULES)


def build_of(name: str) -> dict[str, str]:
    """What tells builds of the framework apart: keys of ``Backend.versions()``, each with its name in words."""
    return cast("dict[str, str]", _module(name).BUILD)


def threads() -> dict[str, int]:
    """Backend -> threads that its framework computes with in this process; only of those loaded by now."""
    found: dict[str, int] = {}
    for name in names():
        framework = sys.modules.get(modules_of(name)[0])
        ask = getattr(_module(name), "threads", None)
        if ask and framework and (count := ask(framework)) is not None:
            found[name] = count
    return found


def missing(name: str) -> str | None:
    """None if the backend's modules are installed, else which is not and what to install. Imports none of them."""
    absent = [needed for needed in modules_of(name) if not _is_installed(needed)]
    return f"module {absent[0]!r} is not installed: {_module(name).INSTALL}" if absent else None


def _is_installed(module: str) -> bool:
    """A mere folder of that name, which Python would import as a namespace, is none: many have one called torch."""
    from importlib.util import find_spec  # takes as long to import as this one

    found = find_spec(module)
    return found is not None and found.origin is not None


def open_backend(name: str, device: str) -> Backend:
    """Open a backend on "cpu" or "cuda:N".

    Raises BackendUnavailable when its framework is absent or does not reach the device. A framework that is
    installed but fails to import raises what it raises: that is a fault to see, not an absence.
    """
    there, reason = Device.parse(device), missing(name)
    if reason is None and there.kind not in devices_of(name):
        reason = f"it runs on {' and '.join(devices_of(name))} only"
    if reason is not None:
        raise BackendUnavailable(f"backend {name} on {device}: {reason}")
    return cast("Backend", _module(name).open(there))


def candidates(having_kernels: Sequence[str], device_kind: str) -> list[str]:
    """The installed ones of some backends that can reach a kind of device, best first. Imports no framework."""
    return [
        name for name in names() if name in having_kernels and device_kind in devices_of(name) and missing(name) is None
    ]


def best_available(having_kernels: Sequence[str], name: str | None, device: str | None) -> Backend:
    """Open the named backend, or the best of those that have a kernel, on a device or on the best there is.

    Raises BackendUnavailable saying of each one tried why it will not do. What is chosen here may fall back; what
    is named may not.
    """
    refusals = []
    for each in [device] if device else [str(nth_gpu(0)), CPU]:
        for candidate in [name] if name else candidates(having_kernels, Device.parse(each).kind):
            try:
                return open_backend(candidate, each)
            except BackendUnavailable as refusal:
                refusals.append(str(refusal))
    if not name:
        refusals += [f"{each}: {reason}" for each, reason in _not_installed(having_kernels).items()]
    raise BackendUnavailable("; ".join(refusals) or f"no backend reaches {device or 'any device'}")


def not_installed(having_kernels: Sequence[str], device: Device, arithmetic: Sequence[str]) -> dict[str, str]:
    """Those of some backends that would reach the device and lack nothing of its arithmetic -> what to install."""
    return {
        name: reason
        for name, reason in _not_installed(having_kernels).items()
        if device.kind in devices_of(name) and not any(lacks(name, device, each) for each in arithmetic)
    }


def _not_installed(having_kernels: Sequence[str]) -> dict[str, str]:
    """Each with what to install."""
    return {name: reason for name in names() if name in having_kernels and (reason := missing(name))}


def _module(name: str) -> Any:
    if name not in files():
        several = "name each by itself; " if "," in name else ""
        raise InvalidRequest(f"backend {name!r}: {several or near(name, names())}there are {', '.join(names())}")
    return importlib.import_module(f"primbench.backends.{name}")
