"""Weights: what it takes until the tensors of a file are where a model computes with them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.kernels.files.problem import TMPDIR
from primbench.kernels.weights._file import PERIOD_BYTES, layout
from primbench.problem import Bound, Exact, Problem, option, size

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

HOW = ("mmap", "read", "pinned", "safetensors")
STAGED_BYTES = 2**25  # of each of two pieces of pinned memory
MOST_TENSORS = 1_000_000
CALLS_OF_FILE = 32  # of the system: open, fstat, the header, close, and what a library looks up beside


@dataclass(frozen=True)
class Weights(Problem, name="weights"):
    """Load a model's weights from a file of safetensors to where they are used: mapped, read, or staged.

    A call opens the file, reads its header, and brings every tensor to memory that is there already, as
    load_state_dict does: the GPU's, or on a CPU the process's own. tensor is the time for one: of small tensors that
    is what each costs, and of large ones the rate says what a byte costs.

    mmap maps the file and copies from there. read reads each tensor by read(2), on a CPU to its place, for a GPU into
    ordinary memory and from there. pinned is for a GPU: two pieces of 32 MiB of pinned memory take turns, so that one
    is filled while the other is copied. safetensors is the package's own safe_open and get_tensor. The first three
    copy by the driver on a GPU, whichever backend asks.

    The file is made in a folder of its own, in what the variable TMPDIR names unless ``path`` is another one, and
    removed at the end. Its bytes are random, and every one of them is compared where it arrives.

    A warm page cache has the file in it, if there is room; cold means that the kernel dropped its pages before each
    call, which is looked up. A disk or a hypervisor may know it all the same.
    """

    bytes: int = size("of each tensor", unit="B")
    tensors: int = option(100, "how many the file has", least=1, most=MOST_TENSORS)
    how: str = option("mmap", "how they are loaded", HOW)
    page_cache: str = option("warm", "whether the kernel has the file in memory before a call", ("warm", "cold"))
    path: str = option(TMPDIR, "folder to make the file in")

    work = "data loading"
    margin = 0.05
    set_up_s = (0.2, 0.7)
    preferred = ("stream_s", "batch_s")
    check_again = True
    example_sizes = ((4096,), (700,))

    def settle(self) -> None:
        """Write out the folder. Raises InvalidField for one that cannot be shown."""
        if self.path != TMPDIR:
            object.__setattr__(self, "path", os.path.abspath(os.path.expanduser(self.path)))
        if not self.path.isprintable():
            raise InvalidField(f"weights path={self.path!r}: a name that can be shown")

    def folder(self) -> str | None:
        return None if self.path == TMPDIR else self.path

    def system_call_count(self) -> int | None:
        """A read for each tensor, or for each piece that is staged; None where a library decides."""
        if self.how == "safetensors":
            return None
        pieces = {"mmap": 0, "read": self.tensors, "pinned": self.tensors * -(-self.bytes // STAGED_BYTES)}
        return CALLS_OF_FILE + pieces[self.how]

    def opened_files(self) -> int:
        return 1

    def bytes_moved(self) -> int:
        """All bytes of all tensors, each once."""
        return self.tensors * self.bytes

    def bound(self) -> Bound | None:
        """Disks, the page cache and the way to a GPU each may be."""
        return None

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        return {"tensor_s": measured.main.median_s / self.tensors if measured.main else None}

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """int8[PERIOD_BYTES], which the tensors of the file, one behind the other, repeat."""
        import numpy as np

        return (rng.integers(-127, 128, PERIOD_BYTES, np.int8),)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Exact:
        """int8[tensors * bytes]: what the file has behind its header."""
        import numpy as np

        return Exact(np.resize(inputs[0], layout(self.tensors, self.bytes)[-1].end))

    def tolerance(self) -> float:
        """Bytes have no rounding errors."""
        return 0.0
