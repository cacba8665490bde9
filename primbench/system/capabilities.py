"""What the kernel lets a process do of what it lets root do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from primbench.system.files import labelled_value
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from pathlib import Path

CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
"""Without CAP_, in the order of their numbers. Linux: include/uapi/linux/capability.h."""


CapabilitySet = Literal["CapEff", "CapBnd"]
"""Those that a process has, and those that it or what it starts may ever have: proc_pid_status(5)."""


def capabilities(root: Path, pid: int = 0, kept: CapabilitySet = "CapEff") -> list[str]:
    """Those of a process, 0 this one, such as "CAP_SYS_NICE". root: of /proc."""
    mask = int(labelled_value(folder_of(root, pid) / "status", kept), 16)
    names = dict(enumerate(CAPABILITIES))
    return [f"CAP_{names.get(bit, bit)}" for bit in range(mask.bit_length()) if mask >> bit & 1]
