"""Kernels that torch.compile has generated (Inductor: C++ on a CPU, Triton on a GPU), as text that is code.

`primbench capture` writes them to a file beside the step's, which is a file of ``--kernels``: what it holds is run by
nobody who has not named it. An operator ``generated.NAME.DIGEST`` is such a kernel, with what a launch is given.
"""

from __future__ import annotations

import hashlib
import re

GENERATED = "generated"
"""The namespace of such operators, which is none of torch's."""
TEXTS: dict[str, str] = {}
"""Texts by their digests, of the files that were named."""

_DIGITS = 16
_PARAMETERS = re.compile(r"(?:\bdef|\bvoid)\s+\w+\(([^()]*)\)")
_NAME = re.compile(r"\w+(?=\s*(?::[^,]*)?$)")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def generated(text: str) -> None:
    """Have a text at hand, of which nothing is run before it is measured."""
    TEXTS[digest(text)] = text


def parameters(text: str) -> list[str]:
    """Names of what a launch gives the kernel, in their order; Triton's have constants after these.

    The kernel is the last function of the text, after those that it calls.
    """
    words = [found.split(",") for found in _PARAMETERS.findall(text)]
    return [name[0] for each in (words[-1] if words else ()) if (name := _NAME.search(each.strip()))]


def is_output(parameter: str) -> bool:
    """Whether a kernel writes it, and does not read it, by the names that Inductor gives."""
    return parameter.startswith("out_ptr")


def is_changed(parameter: str) -> bool:
    """Whether a kernel reads it and writes to it."""
    return parameter.startswith("in_out_ptr")
