"""What NCCL is told by variables and files, beside what it finds by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.rdma import AMAZON, NOT_FOUND, of_amazon
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.doctor.place import Place

RANK = 8

# NCCL user guide, "Environment Variables": each of these takes a way away.
SWITCHES = {
    "NCCL_P2P_DISABLE": "GPUs of one machine do not reach each other directly",
    "NCCL_SHM_DISABLE": "ranks of one machine do not use shared memory",
    "NCCL_IB_DISABLE": "InfiniBand and RoCE are not used",
    "NCCL_NVLS_ENABLE": "multicast in NVSwitch is not used",
    "NCCL_CUMEM_ENABLE": "memory is not shared by cuMem",
}
OFF_BY_ZERO = {"NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE"}
TALKATIVE = {"INFO", "TRACE"}


def nccl_variables(place: Place) -> Iterator[Finding]:
    """Whether variables take ways away from NCCL, or choose for it."""
    given = {name: value for name, value in place.variables.items() if name.startswith("NCCL_")}
    yield from _taken_away(given)
    if given.get("NCCL_DEBUG", "").upper() in TALKATIVE:
        yield Finding(
            severity="note",
            summary="NCCL writes a log while it starts, and with TRACE at every call",
            about=[FactId("software", "variables", "NCCL_DEBUG")],
            evidence=[f"NCCL_DEBUG={given['NCCL_DEBUG']}"],
            distorts=["collective", "start-up"],
            fix=["unset NCCL_DEBUG"],
        )
    others = {name: value for name, value in given.items() if name not in {*SWITCHES, "NCCL_DEBUG"}}
    if others:
        yield Finding(
            severity="note",
            summary="NCCL is told what it would otherwise choose",
            about=[FactId("software", "variables", name) for name in others],
            evidence=[f"{name}={value}" for name, value in others.items()],
            advice="set the same in every place that is compared",
        )


def _taken_away(given: Mapping[str, str]) -> Iterator[Finding]:
    for name, what in SWITCHES.items():
        if _is_off(name, given):
            yield Finding(
                summary=f"{name} is set: {what}",
                about=[FactId("software", "variables", name)],
                evidence=[f"{name}={given[name]}"],
                advice="unset it, unless it is what is to be measured",
                fix=[f"unset {name}"],
            )


def _is_off(name: str, given: Mapping[str, str]) -> bool:
    return given.get(name) == "0" if name in OFF_BY_ZERO else given.get(name, "0") not in ("", "0")


def nccl_files(place: Place) -> Iterator[Finding]:
    """Whether a file does the same, unseen by whoever only looks at the environment."""
    files = {path: digest for path, digest in (place.software.files or {}).items() if "nccl" in path}
    if files:
        yield Finding(
            severity="note",
            summary=f"NCCL is told what to choose by {listed([*files])}",
            values=[*files],
            evidence=[f"{path}: SHA-256 {digest[:16]}..." for path, digest in files.items()],
            advice="have the same file in every place that is compared: a container has it only where it is mounted",
        )


def nccl_plugin(place: Place) -> Iterator[Finding]:
    """Whether the loader finds the network plugin that NCCL is told to take, or that the adapters need."""
    lost = [name for name, where in (place.software.nccl_plugins or {}).items() if where == NOT_FOUND]
    needing, asked = of_amazon(place.machine.infiniband_vendors), "NCCL_NET_PLUGIN" in place.variables
    reasons = [
        *([f"NCCL_NET_PLUGIN={place.variables['NCCL_NET_PLUGIN']}"] if asked else []),
        *([f"adapters of Amazon's (vendor {AMAZON}): {listed(needing)}"] if needing else []),
    ]
    if lost and reasons:
        yield Finding(
            summary=f"NCCL's network plugin {listed(lost)} is not found: it goes by other ways, to Amazon's adapters "
            "by sockets, 1 to 5 Gbit/s in place of 100 and more",  # NVIDIA-NeMo/RL#1973
            about=[FactId("software", "nccl_plugins")],
            values=[*lost],
            evidence=["searched: LD_LIBRARY_PATH, /etc/ld.so.cache, the usual folders", *reasons],
            advice="install it in the image (aws-ofi-nccl for EFA), put its folder into LD_LIBRARY_PATH, or unset what "
            "names one that is not there",
            fix=["unset NCCL_NET_PLUGIN"] if asked else [],
        )


CAUSES = (
    Cause("nccl", title="other settings of NCCL", slows=("collective",), upstream=17, severity="warning",
          effect="NCCL chooses other ways and algorithms"),
    Cause("nccl-variables", slows=("collective",), is_by_fact=True, here=nccl_variables),
    Cause("nccl-files", slows=("collective",), reads=of("software", "files"), here=nccl_files),
    Cause("nccl-plugin", slows=("collective",), here=nccl_plugin),
)  # fmt: skip
