"""Whether the GPUs can be used from here: CUDA starts, libraries bring code for them, and nobody else holds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.causes import HARDWARE, STACK, has_gpus
from primbench.causes._job_gpus import clocks_held_down, others_on_gpus, waits_for_copies, waits_for_launches
from primbench.devices import nth_gpu
from primbench.doctor.cause import Cause, Finding, Suspect, listed, of
from primbench.environment.gpu_code import BY_COMPILING, NOT_AT_ALL, lacking
from primbench.gpu.nvidia.cuda_start import STARTS
from primbench.system.meaning import FactId
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.sides import Side
    from primbench.doctor.place import Place
    from primbench.gpu.nvidia.gpu import Gpu

RANK = 1

# CUDA's own libraries, each of which is for all GPUs of its release: what their files lack they have elsewhere, or link
# as it is needed, such as cuFFT and cuFile on an H200 (CUDA 13.0, 2026-11-27).
_OF_CUDA = re.compile(r"lib(cuda|cudart|cudnn|cublas|cufft|cufile|curand|cusolver|cusparse|cupti|nccl|npp|nv)\w*\.so.*")
_NOT_ALLOWED = {"EPERM", "EACCES"}

GPU_FILE = re.compile(r".*/nvidia[0-9]+")
WSL_FILE = "/dev/dxg"  # the only one under WSL2, for GPUs of any maker


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


def _without(place: Place) -> str:
    """Why no GPU is known of; "" where one is, or none was asked for."""
    if place.devices.gpus or not place.devices.are_gpus_asked_for:
        return ""
    return place.devices.missing.get("gpus", "NVML lists none")


def gpus_visible(place: Place) -> Iterator[Finding]:
    """Whether what is there of a driver and its GPUs is there as a whole."""
    if not (reason := _without(place)):
        return
    files, driver = place.devices.gpu_files or [], place.devices.driver_version
    hidden = place.variables.get("CUDA_VISIBLE_DEVICES")
    if place.pid is not None:
        yield Finding(
            severity="note",
            summary="no GPU is known to be open in this process, so that nothing is said of any",
            about=[FactId("devices", "gpus")],
            evidence=[reason],
        )
    elif place.devices.gpus == [] and hidden is not None:
        yield Finding(
            severity="note",
            summary="CUDA_VISIBLE_DEVICES hides every GPU",
            about=[FactId("software", "variables", "CUDA_VISIBLE_DEVICES")],
            evidence=[f"CUDA_VISIBLE_DEVICES={hidden}"],
        )
    elif files == [WSL_FILE]:
        yield Finding(
            severity="note",
            summary="this is WSL2, and no NVIDIA GPU can be used through its device file",
            about=[FactId("devices", "gpus"), FactId("devices", "gpu_files")],
            values=[WSL_FILE],
            evidence=[reason, f"device files: {WSL_FILE}"],
            advice="if there is one, its driver belongs in Windows, none in Linux; see that /usr/lib/wsl/lib is here",
        )
    elif files:
        yield Finding(
            severity="problem",
            summary="there are NVIDIA device files, and no GPU behind them can be used",
            about=[FactId("devices", "gpus"), FactId("devices", "gpu_files")],
            evidence=[reason, f"device files: {', '.join(files[:4])}{', ...' if len(files) > 4 else ''}"],
            distorts=["kernel", "start-up"],
            advice=_to_use_the_files(place),
        )
    elif driver is not None:
        yield Finding(
            severity="problem",
            summary=f"driver {driver} is loaded, and its device files are not here",
            about=[FactId("devices", "gpus"), FactId("devices", "driver_version")],
            values=[driver],
            evidence=["/proc/driver/nvidia/version", reason],
            distorts=["kernel", "start-up"],
            advice=place.advice(
                "give the job its GPUs: apptainer exec --nv, Slurm's --gres=gpu:1; on a host, nvidia-modprobe -u -c 0",
                engine="--gpus all` or, with CDI, `--device nvidia.com/gpu=all",
                kubernetes="ask for nvidia.com/gpu in the pod's limits",
            ),
        )
    else:
        yield Finding(
            severity="note",
            summary="no NVIDIA GPU can be seen here, so that nothing is said of any",
            about=[FactId("devices", "gpus")],
            evidence=[reason],
        )


def other_gpu(beside: Beside) -> Iterator[Suspect]:
    """Another GPU by its UUID: two boards of one model, or two MIG slices of one board, differ in speed."""
    baseline, side = beside.baseline, beside.side
    one, other = (_gpu_of(beside, each) for each in (baseline, side))
    if one is not None and other is not None and None not in (one.uuid, other.uuid) and one.uuid != other.uuid:
        kind = ", and two of a kind differ" if one.name == other.name else ""
        of_one_study = baseline.arm is not None and side.arm is not None
        mend = f": give both the same, such as by env.CUDA_VISIBLE_DEVICES={one.uuid}" if of_one_study else ""
        which = f"{_which(other)} in {side.name}, {_which(one)} in {baseline.name}"
        yield Suspect(f"another GPU: {which}{kind}{mend}", title="another GPU", upstream=0.9)  # before what GPUs are


def _gpu_of(beside: Beside, side: Side) -> Gpu | None:
    worker = beside.worker(side)
    return worker.environment.devices.gpu(beside.case.case.device) if worker else None


def _which(gpu: Gpu) -> str:
    return f"{gpu.uuid} at {gpu.pci_address}" if gpu.pci_address else f"{gpu.uuid}"


def _to_use_the_files(place: Place) -> str:
    if not place.in_container:
        return "see that the driver is loaded and its library is found: nvidia-smi, dmesg | grep -i nvrm"
    again = (
        "start the container again if GPUs have gone while it ran (systemctl daemon-reload takes the device files' "
        "permission away); else see that the driver's libraries are inside (libnvidia-ml.so.1)"
    )
    if place.is_rootless:  # NVIDIA/nvidia-container-toolkit#85
        return f"without root, set no-cgroups = true in the toolkit's config.toml, or use CDI; {again}"
    return again


def gpu_files(place: Place) -> Iterator[Finding]:
    """Whether every GPU that NVML lists can be opened, and the device of unified memory, which CUDA needs."""
    if not place.gpus or place.devices.gpu_files is None or WSL_FILE in place.devices.gpu_files:
        return
    if lacking := _lacking_files(place, place.devices.gpu_files):
        yield Finding(
            severity="problem" if place.in_container else "warning",
            summary=f"not here: {listed(lacking)}; CUDA cannot start without",
            values=lacking,
            evidence=[f"here: {', '.join(place.devices.gpu_files) or 'none'}"],
            advice=place.advice(
                "make them on the host, as root, before anything is started", engine="--gpus all", kubernetes=None
            ),
            fix=["nvidia-modprobe -u -c 0"],
        )


def _lacking_files(place: Place, there: Sequence[str]) -> list[str]:
    boards = {gpu.pci_address for gpu in place.gpus if gpu.pci_address}
    numbered = [path for path in there if GPU_FILE.fullmatch(path)]
    lacking = [f"{len(boards) - len(numbered)} of /dev/nvidia0, ..."] if len(numbered) < len(boards) else []
    return lacking + ([] if any(path.endswith("/nvidia-uvm") for path in there) else ["/dev/nvidia-uvm"])


def gpu_processes(place: Place) -> Iterator[Finding]:
    """Whether other processes hold the GPUs, too."""
    found = {str(nth_gpu(index)): there for index, there in enumerate(place.contention.gpu_processes or []) if there}
    if found:
        yield Finding(
            summary=f"other processes hold {listed([*found])}, too: kernels and copies take turns with theirs",
            values=[*found],
            evidence=[
                f"{device}: process {each.pid}, {format_bytes(each.memory_bytes)} (NVML)"
                for device, there in found.items()
                for each in there
            ],
            advice="stop them, or take a GPU that nobody holds (nvidia-smi lists who holds which)",
        )


def driver_capabilities(place: Place) -> Iterator[Finding]:
    """Whether the container was given the compute libraries of the driver: enroot's default is utility alone."""
    asked = place.variables.get("NVIDIA_DRIVER_CAPABILITIES")
    if asked and not {"all", "compute"} & {word.strip() for word in asked.split(",")}:
        yield Finding(
            severity="problem",
            summary="the container asks for the driver without its compute part: there is no libcuda",
            about=[FactId("software", "variables", "NVIDIA_DRIVER_CAPABILITIES")],
            evidence=[f"NVIDIA_DRIVER_CAPABILITIES={asked}"],
            advice=place.advice(
                "set NVIDIA_DRIVER_CAPABILITIES=compute,utility where the container is started",
                engine="-e NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            ),
        )


CAUSES = (
    Cause("cuda-start", title="CUDA that does not start", slows=("start-up",), upstream=0.5, severity="problem",
          refuses=r"CUDA_ERROR_|cuInit|CUDA unknown error|No CUDA GPUs are available|no CUDA-capable device",
          effect="no program can use the GPUs there", reads=of("devices", "cuda"), where=has_gpus, here=cuda_start),
    Cause("gpu-code", slows=("start-up", "launch"), upstream=11,
          refuses=r"no kernel image is available|invalid device function", reads=of("software", "gpu_code"),
          where=has_gpus, here=gpu_code, is_of_loaded=True),
    Cause("gpu-count", title="other GPUs beside it", slows=("copy", "collective"), upstream=1, severity="warning",
          effect="all-reduce has other ranks and other ways between them, and device numbers may mean other boards"),
    Cause("gpu", title="another GPU", slows=("kernel", "copy"), upstream=1, severity="warning", effect=HARDWARE,
          between=other_gpu),
    Cause("driver", title="another driver", slows=("launch", "copy", "kernel"), upstream=4, severity="warning",
          effect=STACK),
    Cause("gpus-visible", under="gpu-count", explains_away=("gpu-count",), reads=(FactId("devices", "gpus", "device"),),
          here=gpus_visible),
    Cause("gpu-files", slows=("start-up",), reads=of("devices", "gpu_files"), here=gpu_files),
    Cause("gpu-processes", slows=("kernel", "copy", "launch"), reads=of("contention", "gpu_processes"), where=has_gpus,
          here=gpu_processes, in_job=others_on_gpus),
    Cause("gpu-clocks", slows=("kernel",), in_job=clocks_held_down),
    Cause("copies", slows=("copy", "data loading"), in_job=waits_for_copies),
    Cause("launches", slows=("launch",), in_job=waits_for_launches),
    Cause("driver-capabilities", slows=("start-up",), here=driver_capabilities),
)  # fmt: skip
