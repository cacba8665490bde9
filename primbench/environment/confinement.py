"""What stands between this process and the kernel: filters, capabilities, namespaces, the root file system."""

from __future__ import annotations

from pathlib import Path

import msgspec

from primbench.runtime import Runtime


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    seccomp: "disabled", "strict" or "filter"; seccomp_filters: how many stand behind one another.
    speculation_store_bypass, speculation_indirect_branch: the kernel's words for this process.
    capabilities: the effective ones, by name, such as "CAP_SYS_NICE".
    lsm_profile: of this process. namespaces: kind -> the kernel's identity of it, equal where two processes share it.
    root_user: whether it is root in its user namespace; user_map: as /proc/self/uid_map has it.
    root_filesystem: type of what is mounted on /.
    transparent_hugepage_disabled: for this process alone, by prctl.
    set_mempolicy, mbind, move_pages: "allowed" or the name of the error, by a call that changes nothing.
    system_call_s: cost of a cheap one (getppid through ctypes), which a filter makes dearer.
    """

    runtime: Runtime | None = None
    seccomp: str | None = None
    seccomp_filters: int | None = None
    no_new_privileges: bool | None = None
    speculation_store_bypass: str | None = None
    speculation_indirect_branch: str | None = None
    capabilities: list[str] | None = None
    lsm_profile: str | None = None
    namespaces: dict[str, str] | None = None
    root_user: bool | None = None
    user_map: list[str] | None = None
    root_filesystem: str | None = None
    transparent_hugepage_disabled: bool | None = None
    set_mempolicy: str | None = None
    mbind: str | None = None
    move_pages: str | None = None
    system_call_s: float | None = None
    missing: dict[str, str] = {}


def collect(root: Path) -> Confinement:
    return Confinement()
