"""A program in the place of the kernel, which explains what else is slow there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import SLOWED
from primbench.doctor.cause import Cause, Finding, of
from primbench.system.sandbox import GVISOR
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place

RANK = 0


def gvisor(place: Place) -> Iterator[Finding]:
    """Whether the kernel itself answers, and not gVisor."""
    if place.machine.virtualization != GVISOR:
        return
    packages = {
        where for what, where in (place.confinement.filesystems or {}).items() if what == "Python" or "files" in what
    }
    yield Finding(
        summary="gVisor stands in for the kernel: each system call goes through it, and each file that is opened or "
        "mapped, as in the import of a framework, through a program outside",
        evidence=[
            f"virtualization: {place.machine.virtualization}; kernel {place.machine.kernel}",
            f"a system call takes {format_time(place.confinement.system_call_s)}, opening a file "
            f"{format_time(place.confinement.open_file_s)}",
            f"Python and its packages: {', '.join(sorted(packages)) or 'unknown'}",
        ],
        advice="compare with a container on the kernel itself (runc, crun); keep packages in the image's own layer, "
        "which is there before the start, and import little (20 to 40 s are reported of torch)",
    )


CAUSES = (
    Cause("gvisor", title="gVisor in place of the kernel", slows=(*SLOWED, "copy", "collective"), upstream=-1,
          explains_away=("machine", "kernel", "kernel-parameters", "mitigations", "clock", "system-calls",
                         "file-opens", "packets", "root-filesystem"),
          severity="warning", reads=of("machine", "virtualization"), here=gvisor),
)  # fmt: skip
