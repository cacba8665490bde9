"""Kernels that torch.compile has generated, built from their text once more."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import UnsupportedCase
from primbench.problem.generated import TEXTS, is_changed, is_output, parameters

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Alias(NamedTuple):
    """As in torch's schemas."""

    is_write: bool = True


class _Argument(NamedTuple):
    """As in torch's schemas."""

    name: str
    alias_info: _Alias | None


class _Schema(NamedTuple):
    """As torch's operators have."""

    arguments: Sequence[_Argument]


class Generated:
    """A kernel that is called as an operator is, with the tensors and numbers that its launch is given."""

    def __init__(self, name: str, text: str) -> None:
        """Raises UnsupportedCase where it cannot be built here."""
        self._parameters = parameters(text)
        self._schema = _Schema([_Argument(each, _Alias() if is_changed(each) else None) for each in self._parameters])
        self._launch = _launch(name, text)

    def __call__(self, *arguments: Any) -> list[Any]:
        """Returns what it has written, but for what it was given to change."""
        self._launch(*arguments)
        return [each for name, each in zip(self._parameters, arguments, strict=False) if is_output(name)]


@functools.cache
def kernel_of(name: str, digest: str) -> Generated:
    """Raises UnsupportedCase where its text is not at hand, or cannot be built here."""
    if digest not in TEXTS:
        raise UnsupportedCase(
            f"{name} is code that torch.compile has generated, in a file that `primbench capture` has written beside "
            "the step's: who trusts it names it, as primbench --kernels STEP.kernels.py explain STEP.toml"
        )
    return Generated(name, TEXTS[digest])


def _launch(name: str, text: str) -> Any:
    import torch
    from torch._inductor import config
    from torch._inductor.codecache import PyCodeCache

    try:
        with config.patch(compile_threads=1):  # else processes that compile would stay beside what is measured
            kernel = getattr(PyCodeCache.load(text), name)
    except Exception as error:  # whatever a compiler says of it
        words = " ".join(str(error).split())
        raise UnsupportedCase(f"{name} cannot be built by torch {torch.__version__} here: {words[:300]}") from None
    if not hasattr(kernel, "run"):
        return kernel
    from torch._C import _cuda_getCurrentRawStream

    device, run = torch.cuda.current_device(), kernel.run
    return lambda *arguments: run(*arguments, stream=_cuda_getCurrentRawStream(device))
