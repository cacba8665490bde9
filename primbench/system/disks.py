"""The disks of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Disk(NamedTuple):
    """number: "8:0", by which control groups name it. path: of its device file."""

    number: str
    path: str


def disks(root: Path) -> list[Disk]:
    """Those that stand on a device, and not on files, memory or other disks. Raises OSError where none are shown."""
    found = [folder for folder in sorted((root / "sys/block").iterdir()) if (folder / "device").exists()]
    return [Disk((folder / "dev").read_text().strip(), f"/dev/{folder.name}") for folder in found]
