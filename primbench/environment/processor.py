"""What the processor shows of itself here: its vector instructions, and whether a program stands in for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.system.files import attempt, labelled_value, utf8
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from pathlib import Path

# Of x86 and Arm, as /proc/cpuinfo names them: those that libraries have kernels for.
_VECTORS = re.compile(
    r"sse4_2|avx|f16c|fma|avx2|avx_vnni|avx512(f|bw|_vnni|_bf16|_fp16)|amx_(tile|bf16|int8|fp16)"
    r"|asimd(hp|dp)?|sve2?|i8mm|bf16|sme2?"
)
_EMULATOR = re.compile(r"qemu-[a-z0-9_]+")
_START_CHARACTERS = 4096  # of /proc/cpuinfo: its first CPU


def vectors(root: Path) -> list[str]:
    """Extensions of the first CPU. Raises ValueError on an architecture whose /proc/cpuinfo lists none."""
    path = root / "proc/cpuinfo"
    flags = attempt({}, "", lambda: labelled_value(path, "flags")) or labelled_value(path, "Features")
    return [flag for flag in flags.split() if _VECTORS.fullmatch(flag)]


def emulator(root: Path, pid: int = 0) -> str:
    """The program that interprets a process, 0 this one, such as "qemu-x86_64", or "none".

    QEMU answers for /proc/self/exe itself, and not for the same link of a thread; Rosetta gives Apple's processors a
    name of its own.
    """
    with (root / "proc/cpuinfo").open() as lines:
        start = lines.read(_START_CHARACTERS)
    program = (
        (folder_of(root, pid) / "exe").readlink() if pid else attempt({}, "", (root / "proc/thread-self/exe").readlink)
    )
    found = _EMULATOR.match(program.name) if program is not None else None
    if found is not None:
        return utf8(found[0])
    return "Rosetta" if "VirtualApple" in start else "none"
