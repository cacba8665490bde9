"""Which code of a library computes a case, as the library itself says."""

from __future__ import annotations

import msgspec

REFERENCE = "ref"
"""What the names of oneDNN's code begin with that is written to be right, and not to be quick."""


class Implementation(msgspec.Struct, frozen=True, kw_only=True):
    library: str
    """"oneDNN" or "MKL"."""
    call: str
    """What the library was asked for, as it calls that: "matmul", "sgemm"."""
    code: str = ""
    """The code that it took for it on this CPU, such as "brg_matmul:avx512_core_bf16"; "" where it does not say."""

    @property
    def is_reference(self) -> bool:
        """Whether it is code of which its authors say that it is slow."""
        return self.code.partition(":")[0] == REFERENCE

    def __str__(self) -> str:
        return " ".join(filter(None, (self.library, self.call, self.code)))
