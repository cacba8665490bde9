"""Which start of which machine this is."""

from __future__ import annotations

from pathlib import Path


def boot_id(root: Path = Path("/")) -> str:
    """A name of the kernel that runs, given at its start: the same in its containers, another on each machine.

    Raises OSError where the kernel gives none.
    """
    return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
