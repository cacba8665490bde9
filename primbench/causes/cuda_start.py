"""CUDA: whether it starts here, and whether libraries bring code for the GPUs that there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.causes import has_gpus
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.cuda_driver import STARTS
from primbench.environment.gpu_code import BY_COMPILING, NOT_AT_ALL, lacking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.doctor.place import Place

RANK = 1

# CUDA's own libraries, each of which is for all GPUs of its release: what their files lack they have elsewhere, or link
# as it is needed, such as cuFFT and cuFile on an H200 (CUDA 13.0, 2026-11-27).
_OF_CUDA = re.compile(r"lib(cuda|cudart|cudnn|cublas|cufft|cufile|curand|cusolver|cusparse|cupti|nccl|npp|nv)\w*\.so.*")
_NOT_ALLOWED = {"EPERM", "EACCES"}


def cuda_start(place: Place) -> Iterator[Finding]:
    """Whether CUDA starts on the GPUs that NVML lists."""
    if place.devices.cuda in (None, STARTS) or not place.gpus:
        return
    refused = place.devices.refused_files or {}
    yield Finding(
        severity="problem",
        summary=f"NVML lists {_gpus(len(place.gpus))}, and CUDA does not start: {place.devices.cuda}",
        values=[str(place.devices.cuda), *refused],
        evidence=[
            "cuInit()",
            *(f"open() of {path}: {error}" for path, error in refused.items()),
            f"device files: {', '.join(place.devices.gpu_files or []) or 'none'}",
        ],
        advice=_to_start(place, refused),
        fix=[] if place.in_container else ["nvidia-modprobe -u -c 0"],
    )


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count > 1)}"


def _to_start(place: Place, refused: Mapping[str, str]) -> str:
    if not _NOT_ALLOWED.isdisjoint(refused.values()):
        return place.advice(
            "let the control group of devices, and the owner of the files, allow them (systemd: DeviceAllow=)",
            engine="--gpus all",
            kubernetes="ask for nvidia.com/gpu in the pod's limits, and leave the rules of devices to its plugin",
        )
    return place.advice(
        "load nvidia-uvm and make its files anew, as root; see what the driver says (dmesg | grep -i nvrm)",
        engine="--gpus all",
    )


_WAYS = {
    BY_COMPILING: "the driver compiles each of their kernels as it is first used",
    NOT_AT_ALL: "none of their kernels runs there",
}


def gpu_code(place: Place) -> Iterator[Finding]:
    """Whether the libraries that are loaded bring code for the GPUs that there are."""
    found = place.software.gpu_code or {}
    own = {name: code for name, code in found.items() if not _OF_CUDA.fullmatch(name)}
    for capability in sorted({gpu.compute_capability for gpu in place.gpus if gpu.compute_capability}):
        yield from _unlike(place, lacking(own, capability), capability)


def _unlike(place: Place, ways: Mapping[str, str], capability: str) -> Iterator[Finding]:
    for how, what in _WAYS.items():
        if names := [name for name in ways if ways[name] == how]:
            yield _lacks(place, names, capability, what)


def _lacks(place: Place, names: list[str], capability: str, what: str) -> Finding:
    found = place.software.gpu_code or {}
    return Finding(
        summary=f"{listed(names)} brought no code for a GPU of compute capability {capability}: {what}",
        values=[*names, capability],
        evidence=[f"{name}: {', '.join(found[name])}" for name in names],
        advice=f"take a build for it (TORCH_CUDA_ARCH_LIST={capability}, nvcc -arch sm_{capability.replace('.', '')}); "
        "until then keep what is compiled (CUDA_CACHE_PATH, CUDA_CACHE_MAXSIZE)",
    )


CAUSES = (
    Cause("cuda-start", title="CUDA that does not start", slows=("start-up",), upstream=0.5, severity="problem",
          refuses=r"CUDA_ERROR_|cuInit|CUDA unknown error|No CUDA GPUs are available|no CUDA-capable device",
          effect="no program can use the GPUs there", reads=of("devices", "cuda"), where=has_gpus, here=cuda_start),
    Cause("gpu-code", slows=("start-up", "launch"), upstream=11,
          refuses=r"no kernel image is available|invalid device function", reads=of("software", "gpu_code"),
          where=has_gpus, here=gpu_code, is_of_loaded=True),
)  # fmt: skip
