"""Programs that compute with torch."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.kernels.program.problem import QUEUED, STAGES
from primbench.measurement import Samples
from primbench.problem import described, kernel
from primbench.registry import named_files
from primbench.system.said import in_short, written

if TYPE_CHECKING:
    from primbench.kernels.program.problem import Program
    from primbench.problem import Step

_NO_MEMORY = re.compile(r"MemoryError|out of memory|allocate memory|ended with -9$", re.IGNORECASE)
_RUN = Path(__file__).with_name("_run.py")


@kernel("program", "torch")
def torch_program(backend: Any, problem: Program) -> Step:
    """Raises UnsupportedCase where there is no GPU that torch reaches, PrimbenchError where the program fails."""
    import numpy as np
    import torch

    if problem.gpu and not torch.cuda.is_available():
        raise UnsupportedCase("program gpu=True: torch finds no GPU here")
    output, runs = np.zeros(1, np.int32), _Runs(problem)

    def step() -> Any:
        output[0] = runs()
        return output

    return described(
        step,
        algorithm=f"torch {torch.__version__} of {Path(torch.__file__).parent}",
        host_buffers=[],
        before=runs.begin,
        is_process=True,
        others={f"{name}_s": runs.samples_of(number) for number, name in enumerate((*STAGES, QUEUED))},
    )


class _Runs:
    """One after the other; a call returns how many steps the program made."""

    def __init__(self, problem: Program) -> None:
        self._device = "cuda" if problem.gpu else "cpu"
        self._batch_size = problem.batch_size
        self._words = [
            problem.network, problem.mode, str(problem.batch_size), str(problem.steps), self._device, *named_files(),
        ]  # fmt: skip
        self._stages_s: list[list[float]] = []  # of each run, and at the end how long it waited for a CPU
        self._is_timed = False

    def _without_memory(self, said: str) -> str:
        """Before what NumPy, torch, CUDA or Linux, which kills, say of memory that they do not have: what takes it."""
        if not _NO_MEMORY.search(said):
            return ""
        return f"no memory for batches of {self._batch_size}; ask for a smaller --batch-size: "

    def begin(self) -> None:
        """Before a call that is timed."""
        self._is_timed = True

    def samples_of(self, number: int) -> Any:
        def samples(*_: object) -> Samples:
            times_s = [stages_s[number] for stages_s in self._stages_s if stages_s[number] >= 0]
            return Samples(samples_s=times_s, calls_per_sample=1, taken_by="clock of the process", stopped="count")

        return samples

    def __call__(self) -> int:
        # Files and not pipes, which end only once the processes that the program leaves behind do.
        with open(os.memfd_create("stages"), "rb") as told, open(os.memfd_create("stderr"), "rb") as errors:
            begun_ns = time.monotonic_ns()
            done = subprocess.run(
                [sys.executable, "-P", _RUN, str(told.fileno()), *self._words],
                pass_fds=[told.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                check=False,
            )  # fmt: skip
            ended_ns = time.monotonic_ns()
            said, complaint = written(told.fileno()), written(errors.fileno())
        if done.returncode or not said:
            lines = complaint.strip().splitlines()
            said = in_short(lines[-1]) if lines else f"ended with {done.returncode}"
            raise PrimbenchError(f"program {self._words[0]}: {self._without_memory(said)}{said}")
        made, queued_ns, *within_ns = said.split(" ")
        at_ns = [begun_ns, *map(int, within_ns), ended_ns]
        if self._is_timed:
            pairs = itertools.pairwise(at_ns)
            self._stages_s.append([*((end - begin) / 1e9 for begin, end in pairs), int(queued_ns) / 1e9])
        return int(made)
