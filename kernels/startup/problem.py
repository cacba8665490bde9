"""Start-up: what a process takes before it does anything, and what it takes to have another thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.problem import Exact, Problem, option

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

PACKAGES = ("numpy", "torch", "cupy", "numba")
OF_GPUS = ("context", "compile", "cublas", "cudnn")
WHAT = ("interpreter", *PACKAGES, *OF_GPUS, "thread")
DONE = 1
MOST_CALLS_OF_INTERPRETER = 1000
OPENED_FILES = {"interpreter": 100, "numpy": 500}  # 42 and 211 (strace), and more where more is installed


@dataclass(frozen=True)
class Startup(Problem, name="startup"):
    """Start an interpreter, what is imported, a CUDA context or a library, each in a process of its own; or a thread.

    Each but the thread is timed from the moment it is asked for until it says that it is ready; own is the part of it
    that what is started takes by itself, without the interpreter. numpy, torch, cupy and numba are imported; context is
    the first GPU's, and in it compile makes a kernel of PTX, cublas a product, cudnn a convolution, each as the first
    call of all. thread starts one and waits for its end.

    The environment, the CPUs and the user are those of the case. The page cache is warm, or cold, which means that the
    kernel dropped the pages of the files that are opened, as far as no process has them mapped; names and attributes
    stay known to it, and so may the files to a disk or a hypervisor.

    What starting a program costs that does nothing, launch says of its call process_start.
    """

    what: str = option("interpreter", "what is started", WHAT)
    page_cache: str = option("warm", "whether the kernel has the files in memory that are opened", ("warm", "cold"))

    example_sizes = ((),)  # nothing has a size
    work = "start-up"
    margin = 0.05
    set_up_s = (2.0, 2.0)
    on_gpus = False
    sees_gpus = True

    def settle(self) -> None:
        if self.page_cache == "cold" and not self.is_process:
            raise InvalidField("startup page_cache='cold' with what='thread': it opens no files")

    @property
    def is_process(self) -> bool:
        return self.what != "thread"

    def system_calls(self) -> tuple[str, ...]:
        return ("clone", "clone3", "vfork", "execve", "mmap") if self.is_process else ("clone", "clone3", "futex")

    def system_call_count(self) -> int | None:
        """An interpreter makes 368 before it runs anything (strace), and more where there is more to look for."""
        return MOST_CALLS_OF_INTERPRETER if self.what == "interpreter" else None

    def opened_files(self) -> int | None:
        return OPENED_FILES.get(self.what)

    def bytes_moved(self) -> None:
        """How many are read depends on what is installed."""

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        own_s = measured.others.get("own_s")
        return {"own_s": own_s.median_s if own_s else None}

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        return ()

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Exact:
        """int32[1], written where what was started said so itself."""
        import numpy as np

        return Exact(np.full(1, DONE, np.int32))

    def tolerance(self) -> float:
        """It was started, or it was not."""
        return 0.0
