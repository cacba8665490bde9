"""What a process died of, in words."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.spec.variables import choosing_code
from primbench.system.files import attempt, labelled_value

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPLAINED = {-signal.SIGKILL, -signal.SIGILL}
"""Exit statuses of which ``how_it_ended`` says more than what a process wrote last, which is of something else."""

# Of x86-64 and Arm, in /proc/cpuinfo's names: those for which libraries have code of their own.
_INSTRUCTIONS = {
    "flags": ("sse4_2", "avx", "fma", "avx2", "bmi2", "avx512f"),
    "Features": ("asimd", "asimddp", "sve", "bf16", "i8mm"),
}


def how_it_ended(status: int, environ: Mapping[str, str] = os.environ) -> str:
    """In words that follow a process's name. status: as subprocess has it, below 0 the number of a signal.

    environ: of the process, which ran on this machine.
    """
    if status == -signal.SIGKILL:
        return (
            "was killed by SIGKILL: the kernel's out-of-memory killer (see dmesg), a limit of CPU time (see ulimit "
            "-t), or somebody"
        )
    return f"{died_of(status)}{f': {illegal_instruction(environ)}' if status == -signal.SIGILL else ''}"


def died_of(status: int) -> str:
    """The same without why."""
    return f"died of {f'signal {_signal_name(-status)}' if status < 0 else f'exit status {status}'}"


def illegal_instruction(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """What had a process with these variables execute an instruction that the CPU here does not have."""
    if chosen := choosing_code(environ):
        named = " and ".join(f"{name}={value}" for name, value in sorted(chosen.items()))
        return f"{named} has a library take code that this CPU may lack the instructions for: unset it"
    absent = [name for label in _INSTRUCTIONS for name in _absent(root, label)]
    if absent:
        return f"this CPU lacks {', '.join(absent)}, which a library was built for: take a build for this CPU"
    return "a library was built for another CPU: take a build for this one"


def _absent(root: Path, label: str) -> list[str]:
    """None where the CPU has no such line, as one of another architecture."""
    flags = attempt({}, label, lambda: labelled_value(root / "proc/cpuinfo", label))
    return [] if flags is None else [name for name in _INSTRUCTIONS[label] if name not in flags.split()]


def _signal_name(number: int) -> str:
    """Real-time signals but the first and the last have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
