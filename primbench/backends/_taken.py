"""Which code of oneDNN and MKL torch's calls on a CPU take, as these libraries say of themselves.

Both write a line for each call while they are asked to: oneDNN's documentation, "Verbose Mode"; oneMKL's, "Using Intel
oneMKL Verbose Mode".
"""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from primbench.measurement.implementation import Implementation

if TYPE_CHECKING:
    from collections.abc import Iterator

_ASKED_BY_USER = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKL_VERBOSE")
_OF_ONEDNN = re.compile(r"onednn_verbose(?:,v1)?(?:,primitive)?,exec,cpu,(?!reorder,)(\w+),([^,]*),")
_OF_MKL = re.compile(r"MKL_VERBOSE (\w+)\(")
_OF_THEM = ("onednn_verbose,", "MKL_VERBOSE ")
_MOST_BYTES = 2**24


@contextmanager
def taken(torch: Any) -> Iterator[list[list[Implementation]]]:
    """At the end it holds what was called meanwhile, each once; nothing where neither library can be asked, or the user
    has asked them himself.
    """
    found: list[list[Implementation]] = []
    modules = [each for each in (torch.backends.mkldnn, torch.backends.mkl) if _can_be_asked(each)]
    if not modules or not os.environ.keys().isdisjoint(_ASKED_BY_USER):
        yield found
        return
    with _printed() as lines, ExitStack() as asking:
        for each in modules:
            asking.enter_context(each.verbose(each.VERBOSE_ON))
        yield found
    found.append(_told(lines))


def _can_be_asked(module: Any) -> bool:
    return module.is_available() and hasattr(module, "verbose")


def _told(lines: list[str]) -> list[Implementation]:
    onednn = {("oneDNN", *of_it) for line in lines for of_it in _OF_ONEDNN.findall(line)}
    mkl = {("MKL", name.lower(), "") for line in lines for name in _OF_MKL.findall(line)}
    return [Implementation(library=library, call=call, code=code) for library, call, code in sorted(onednn | mkl)]


@contextmanager
def _printed() -> Iterator[list[str]]:
    """The lines that the libraries print; what else is, goes to the standard output at the end."""
    lines: list[str] = []
    libc, before, held = ctypes.CDLL(None), os.dup(1), os.memfd_create("printed")
    libc.fflush(None)
    os.dup2(held, 1)
    try:
        yield lines
    finally:
        libc.fflush(None)
        os.dup2(before, 1)
        text = os.pread(held, _MOST_BYTES, 0).decode(errors="surrogateescape").splitlines(keepends=True)
        lines += [line for line in text if line.startswith(_OF_THEM)]
        others = "".join(line for line in text if not line.startswith(_OF_THEM))
        os.write(before, others.encode(errors="surrogateescape"))
        os.close(held)
        os.close(before)
