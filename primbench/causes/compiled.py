"""Code that is compiled while a program runs: whether it may be executed, and loaded from where it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.cause import Cause, Finding, listed, of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place

RANK = 7

ALLOWED = "allowed"


def executable_pages(place: Place) -> Iterator[Finding]:
    """Whether code may be compiled and executed while a program runs, as oneDNN and Numba do."""
    found = place.confinement.executable_pages
    if found not in (None, ALLOWED):
        yield Finding(
            severity="problem",
            summary=f"no memory that was written may be executed ({found}): oneDNN, Numba and whatever else compiles "
            'code while it runs fails ("could not create a primitive")',
            values=[str(found)],
            evidence=["mprotect() of a page that was written, to execute it", _filter_of(place)],
            advice=place.advice(
                "start it without MemoryDenyWriteExecute= (systemd, PR_SET_MDWE), and allow execmem where SELinux "
                "denies it",
                engine="--security-opt seccomp=PROFILE that allows mprotect and mmap with PROT_EXEC",
            ),
        )


def _filter_of(place: Place) -> str:
    found = place.confinement
    return f"seccomp: {found.seccomp or 'unknown'}, security profile: {found.lsm_profile or 'unknown'}"


def noexec(place: Place) -> Iterator[Finding]:
    """Whether libraries that torch and Triton compile can be loaded from where they are kept."""
    found = place.confinement.noexec
    if found:
        yield Finding(
            summary=f"nothing that is compiled can be loaded from {listed(found)}, mounted noexec: torch.compile and "
            "Triton fail, or are left out",
            values=[*found],
            evidence=[f"{place.proc}/mountinfo: noexec"],
            advice=place.advice(
                "let TMPDIR and TORCHINDUCTOR_CACHE_DIR name a folder that is mounted without noexec",
                engine="--tmpfs /tmp:exec",
            ),
        )


CAUSES = (
    Cause("executable-pages", title="memory that may not be executed",
          slows=("kernel", "everything on the CPU", "start-up"),
          works={"": ("kernel", "start-up"), "numpy": ("start-up",)}, times=300.0,
          source="timed: torch's product of int8[512, 512] takes 182 times as long by what oneDNN does without a "
          "compiler; what has no such way fails (pytorch/pytorch#143651)",
          upstream=8, explains_away=("executable-pages",),
          refuses=r"could not create a primitive|executable memory|execmem", severity="problem",
          effect="oneDNN, Numba and whatever else compiles code while it runs fails, or takes a slower way",
          reads=of("confinement", "executable_pages"), here=executable_pages),
    Cause("noexec", title="another place for compiled code", slows=("kernel", "everything on the CPU", "start-up"),
          works={"": ("kernel", "start-up"), "numpy": ()}, upstream=8,
          source="what cannot be loaded runs uncompiled (pytorch/pytorch#91005)", explains_away=("noexec",),
          refuses=r"failed to map segment from shared object", severity="warning",
          effect="what torch and Triton compile cannot be loaded there, and runs uncompiled or not at all",
          reads=of("confinement", "noexec"), here=noexec),
)  # fmt: skip
