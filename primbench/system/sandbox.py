"""What stands between programs and the hardware: a hypervisor, by its name, or gVisor in the kernel's place."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from primbench.system.files import labelled_value

if TYPE_CHECKING:
    from pathlib import Path

GVISOR = "gVisor"
KATA = "Kata Containers"
_GVISOR = "Sun Jan 10 15:06:54 PST 2016"  # gVisor's kernel version always has this date
# Parameters of the kernel that Kata's runtime boots: virtcontainers/kata_agent.go.
_KATA = re.compile(r"systemd\.unit=kata-containers\.target|agent\.(log|container_pipe_size|hotplug_timeout)\b")


def virtualization(root: Path) -> str:
    """ "none", a hypervisor's name, "unnamed hypervisor", Kata's with the one that it has a container in, or gVisor.

    By what everybody may read: by tables of ACPI, which tell of Firecracker, root would find another machine on the
    host than inside a container.
    """
    with contextlib.suppress(OSError):
        if _GVISOR in (root / "proc/version").read_text():
            return GVISOR
    if "hypervisor" not in labelled_value(root / "proc/cpuinfo", "flags").split():
        return "none"
    name = _named(root) or "unnamed hypervisor"
    with contextlib.suppress(OSError):
        if _KATA.search((root / "proc/cmdline").read_text()):
            return f"{KATA} ({name})"
    return name


def _named(root: Path) -> str:
    names = []
    for path in (root / "sys/class/dmi/id/sys_vendor", root / "sys/class/dmi/id/product_name"):
        with contextlib.suppress(OSError):
            names.append(path.read_text().strip())
    return " ".join(names)
