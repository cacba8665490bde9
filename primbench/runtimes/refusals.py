"""Why no worker comes up in an arm, in one line: what its runtime, Linux or the worker said, and what to do."""

from __future__ import annotations

import re
import resource
from pathlib import Path

from primbench.runtimes.oci import NEEDS_RUNC
from primbench.spec.arm import Arm
from primbench.system import cpusets
from primbench.system.files import attempt, format_cpu_list
from primbench.units import format_bytes

_BUILD = "build one with `primbench image build`"

# In the last words of Python, of runtimes, and of Linux: what an image lacks.
_LACKS = {
    r"No module named '?(primbench)\b": r"\1",
    r"No module named '?(\w+)'?$": r"\1",
    r"\bpython3[`\"']?:? (executable file not found|not found|No such file)": "python3",
}
_NO_IMAGE = r"No such image|image not known|invalid reference format|could not open image|can't stat|Unable to handle"
_NO_FRAMEWORK = r"module '\w+' is not installed|is built without CUDA"
_NO_GPU = (
    r"no GPU is visible|finds no usable GPU|torch sees 0|shows 0 GPU|NO_DEVICE|no CUDA-capable device|driver init"
    r"|nvidia\.com/gpu|could not select device driver|nvidia-container-cli.* not found"
)
_NO_ROOM = r"SIGKILL|memory limit(?!.*(permission denied|not permitted))"
_NO_SUCH_CPU = r"cpuset\.(cpus|mems)"
_NO_HYBRID = r"cgroups in hybrid mode not supported"  # in crun's words, also below an engine

_OTHER_FILES = r"bind source path does not exist|mounts denied|path \S+ is not shared from the host"
_NO_MORE_FILES = r"RLIMIT_NOFILE|rlimit type 7\b"  # getrlimit(2)
_NO_NETWORK = r"/dev/net/tun|slirp4netns|pasta|netavark|CNI|network \w+ not found"

_IMAGES_OF = {
    "docker": "`docker images` lists those that are here, `docker pull` fetches one",
    "podman": "`podman images` lists those that are here, `podman pull` fetches one",
    "apptainer": "name a file or a folder in full, `apptainer pull` fetches one",
    "charliecloud": "name a folder in full, or what `ch-image list` lists; `ch-image pull` fetches one",
}
_TOOLKIT = (
    "install the NVIDIA container toolkit, and have it describe the GPUs to containers: "
    "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
)
_GPUS_BY = {
    "host": "see nvidia-smi",
    "docker": _TOOLKIT,
    "podman": _TOOLKIT,
    "apptainer": "it was asked for them by --nv: see whether /dev/nvidia* and libcuda.so.1 are on this machine",
    "charliecloud": "its /dev is this machine's; `ch-fromhost --nvidia` puts the driver's libraries into an image",
    "enroot": "its hook takes them from this machine by nvidia-container-cli: install that",
}
_FILES_BY = {
    "podman": 'below [containers] in containers.conf, set default_ulimits = ["nofile={0}:{0}"]',
    "docker": "start dockerd with --default-ulimit=nofile={0}:{0}",
}
_RUNC_BY = {"podman": ', by runtime = "runc" below [engine] in containers.conf'}
_CHOOSES_GPUS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")

_LOGGED = re.compile(r'time="[^"]*" level=\w+ msg="(.*)"$')  # by runc and crun
_IDENTIFIER = re.compile(r" [0-9a-f]{64}\b")


def refusal(arm: Arm, said: str) -> str:
    """said: by who was to start the worker, or by the worker before its first case, or what it died of."""
    said = _plain(said.removeprefix(f"arm {arm.name}: "))
    for sign, absent in () if arm.on_host_root or re.search(_NO_IMAGE, said) else _LACKS.items():
        if found := re.search(sign, said):
            return f"arm {arm.name}: image {arm.image} has no {found.expand(absent)}: {_BUILD}"
    mend = _mend(arm, said)
    return f"arm {arm.name}: {said}{f': {mend}' if mend else ''}"


def _plain(said: str) -> str:
    """Without what a log has around a message, and without the names of containers, which nobody can look up."""
    said = re.sub(_IDENTIFIER, "", " ".join(said.split()))
    return re.sub(_LOGGED, lambda logged: logged[1].replace('\\"', '"'), said)


def _mend(arm: Arm, said: str) -> str | None:
    """None where what was said says it, or nothing is known."""
    if re.search(_NO_GPU, said):
        return _gpus(arm, said)
    if re.search(_NO_IMAGE, said) and arm.runtime in _IMAGES_OF and not arm.on_host_root:
        return f"{_IMAGES_OF[arm.runtime]}, `primbench image build` builds one"
    if re.search(_NO_FRAMEWORK, said) and not arm.on_host_root:
        return f"that is in image {arm.image}: {_BUILD} --extra NAME"
    if re.search(_NO_ROOM, said) and arm.memory_bytes is not None:
        return f"{format_bytes(arm.memory_bytes)} of memory may be too little for Python and its libraries: give more"
    if re.search(_NO_SUCH_CPU, said):
        return _cpus_and_nodes(Path("/"))
    if re.search(_NO_HYBRID, said):
        return f"{NEEDS_RUNC}{_RUNC_BY.get(arm.runtime, '')}"
    if re.search(_OTHER_FILES, said) and arm.on_host_root:
        return (
            f"who starts containers for {arm.runtime} sees other files than are here, as on another machine, in a "
            "virtual one or outside of this container: name one of this machine (DOCKER_HOST, `docker context ls`), "
            "or an image of its own by image=NAME"
        )
    if re.search(_NO_MORE_FILES, said) and arm.runtime in _FILES_BY:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return f"no more than {most} open files may be had here: {_FILES_BY[arm.runtime].format(most)}"
    if re.search(_NO_NETWORK, said) and arm.network != "none":
        return f"a network of its own cannot be had: {arm.runtime}:network=none or network=host does without"
    return "--verbose shows all that it said" if "worker died of exit status" in said else None


def _cpus_and_nodes(root: Path) -> str | None:
    cpus = attempt({}, "cpus", lambda: format_cpu_list(cpusets.cpus_allowed(root)[0]))
    nodes = attempt({}, "nodes", lambda: format_cpu_list(cpusets.memory_nodes_allowed(root)))
    return f"there are CPUs {cpus} and memory nodes {nodes} here" if cpus and nodes else None


def _gpus(arm: Arm, said: str) -> str:
    seen = "" if "no GPU is visible" in said else "no GPU is visible inside: "
    chosen = [f"env.{name}={arm.variables[name]}" for name in _CHOOSES_GPUS if name in arm.variables]
    if chosen:
        return f"{seen}leave out {' and '.join(chosen)}, or name one that nvidia-smi shows"
    if arm.runtime not in _GPUS_BY or (arm.on_host_root and arm.runtime != "host"):
        return (
            f"{seen}it has the files of this machine: see whether /dev/nvidia*, nvidia-uvm among them, and "
            "libcuda.so.1 are there, and nvidia-smi works"
        )
    return seen + _GPUS_BY[arm.runtime]
