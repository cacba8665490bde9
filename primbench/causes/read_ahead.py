"""How far ahead the kernel reads of what is read in turn, which is a setting of each disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_FILES
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.disks import USUAL_BYTES
from primbench.environment.filesystems import NETWORK_LIKE
from primbench.units import format_bytes
from primbench.watching.on_disks import reads_little_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place

RANK = 7


def read_ahead(place: Place) -> Iterator[Finding]:
    """Whether the kernel reads as far ahead as it does unless told otherwise, on the disks that are used."""
    little: dict[tuple[str, int], list[str]] = {}
    for what, ahead_bytes in (place.confinement.read_ahead_bytes or {}).items():
        if ahead_bytes < USUAL_BYTES:
            little.setdefault(((place.confinement.disks or {}).get(what, "a disk"), ahead_bytes), []).append(what)
    for (disk, ahead_bytes), folders in little.items():
        yield Finding(
            summary=f"{disk} is read {format_bytes(ahead_bytes)} ahead at most: what is mapped or read by small pieces "
            f"there is asked for so ({listed(folders)})",
            values=[disk, ahead_bytes],
            evidence=[f"read_ahead_kb of {disk}; Linux's own choice is {format_bytes(USUAL_BYTES)}"],
            at_most=100.0,
            advice="on the host, as root, let it be read further ahead; see which profile or rule set it (tuned, udev)",
            fix=[f"blockdev --setra 256 /dev/{disk}"] * (not disk.startswith(NETWORK_LIKE)),
        )


CAUSES = (
    Cause("read-ahead", title="another read-ahead of disks", slows=OF_FILES, times=100.0,
          source="timed: a file that is mapped takes 16 times as long by 16 KiB as by 2.5 MiB, 69 times by none",
          upstream=8, explains_away=("disk",), effect="what is read in turn is asked of the disk in other pieces",
          reads=of("confinement", "read_ahead_bytes"), here=read_ahead, in_job=reads_little_ahead),
)  # fmt: skip
