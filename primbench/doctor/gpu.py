"""Whether the GPUs can be used from here, and whether through a service that others may use, too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.doctor.finding import Finding, listed, unseen
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.place import Place

RANK = 1

GPU_FILE = re.compile(r".*/nvidia[0-9]+")
WSL_FILE = "/dev/dxg"  # the only one under WSL2, for GPUs of any maker


def gpus_visible(place: Place) -> Iterator[Finding]:
    """Whether what is there of a driver and its GPUs is there as a whole."""
    devices = place.environment.devices
    if devices.gpus:
        return
    reason = devices.missing.get("gpus", "NVML lists none")
    files, driver = devices.gpu_files or [], devices.driver_version
    hidden = place.variables.get("CUDA_VISIBLE_DEVICES")
    if place.pid is not None:
        yield Finding(
            check="gpus-visible",
            severity="note",
            summary="no GPU is known to be open in this process, so that nothing is said of any",
            evidence=[reason],
        )
    elif devices.gpus == [] and hidden is not None:
        yield Finding(
            check="gpus-visible",
            severity="note",
            summary="CUDA_VISIBLE_DEVICES hides every GPU",
            evidence=[f"CUDA_VISIBLE_DEVICES={hidden}"],
        )
    elif files == [WSL_FILE]:
        yield Finding(
            check="gpus-visible",
            severity="note",
            summary="this is WSL2, and no NVIDIA GPU can be used through its device file",
            evidence=[reason, f"device files: {WSL_FILE}"],
            advice="if there is one, its driver belongs in Windows, none in Linux; see that /usr/lib/wsl/lib is here",
        )
    elif files:
        yield Finding(
            check="gpus-visible",
            severity="problem",
            summary="there are NVIDIA device files, and no GPU behind them can be used",
            evidence=[reason, f"device files: {', '.join(files[:4])}{', ...' if len(files) > 4 else ''}"],
            distorts=["kernel", "start-up"],
            advice=_to_use_the_files(place),
        )
    elif driver is not None:
        yield Finding(
            check="gpus-visible",
            severity="problem",
            summary=f"driver {driver} is loaded, and its device files are not here",
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
            check="gpus-visible",
            severity="note",
            summary="no NVIDIA GPU can be seen here, so that nothing is said of any",
            evidence=[reason],
        )


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
    devices = place.environment.devices
    yield from unseen("gpu-files", devices, "gpu_files")
    if not place.gpus or devices.gpu_files is None or WSL_FILE in devices.gpu_files:
        return
    if lacking := _lacking_files(place, devices.gpu_files):
        yield Finding(
            check="gpu-files",
            severity="problem" if place.in_container else "warning",
            summary=f"not here: {listed(lacking)}; CUDA cannot start without",
            evidence=[f"here: {', '.join(devices.gpu_files) or 'none'}"],
            distorts=["start-up"],
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
    if place.gpus:
        yield from unseen("gpu-processes", place.contention, "gpu_processes")
    found = {f"cuda:{index}": there for index, there in enumerate(place.contention.gpu_processes or []) if there}
    if found:
        yield Finding(
            check="gpu-processes",
            severity="warning",
            summary=f"other processes hold {listed([*found])}, too: kernels and copies take turns with theirs",
            evidence=[
                f"{device}: process {each.pid}, {format_bytes(each.memory_bytes)} (NVML)"
                for device, there in found.items()
                for each in there
            ],
            distorts=["kernel", "copy", "launch"],
            advice="stop them, or take a GPU that nobody holds (nvidia-smi lists who holds which)",
        )


def driver_capabilities(place: Place) -> Iterator[Finding]:
    """Whether the container was given the compute libraries of the driver: enroot's default is utility alone."""
    asked = place.variables.get("NVIDIA_DRIVER_CAPABILITIES")
    if asked and not {"all", "compute"} & {word.strip() for word in asked.split(",")}:
        yield Finding(
            check="driver-capabilities",
            severity="problem",
            summary="the container asks for the driver without its compute part: there is no libcuda",
            evidence=[f"NVIDIA_DRIVER_CAPABILITIES={asked}"],
            distorts=["start-up"],
            advice=place.advice(
                "set NVIDIA_DRIVER_CAPABILITIES=compute,utility where the container is started",
                engine="-e NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            ),
        )
